"""JSON lines: one object a line, UTF-8. The value of a row is its object again, compact, members in their order."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import IO, Any

from duramen.loading.errors import FileRefused
from duramen.loading.options import LoadOptions
from duramen.loading.rows import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    REJECT_TEXT_MAX,
    BadField,
    Reject,
    RowChunk,
    check_pair,
    key_maker,
)
from log_tier.model.record import VALUE_BYTES_MAX

__all__ = ["compact_json", "json_pairs", "json_rows", "object_rows"]

# A line longer than any value can be is not read to its end.
_LINE_BYTES_MAX = 2 * VALUE_BYTES_MAX

compact_json: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False
).encode


def json_rows(path: Path, file: IO[bytes], position: Callable[[], int], options: LoadOptions) -> Generator[RowChunk]:
    """Yield the rows of an open file of JSON lines in chunks; whatever is wrong with a row is a reject."""
    pair_of = object_rows(path, options)
    yield from json_pairs(path, file, position, lambda line: pair_of(_object(line)))


def json_pairs(
    path: Path, file: IO[bytes], position: Callable[[], int], pair_of: Callable[[bytes], tuple[bytes, bytes]]
) -> Generator[RowChunk]:
    """The same, where `pair_of` makes the key and the value of a line; it raises `BadField`."""
    pairs: list[tuple[bytes, bytes]] = []
    rejects: list[Reject] = []
    first_row = 1
    line_number = row_number = size = 0
    while line := file.readline(_LINE_BYTES_MAX):
        line_number += 1
        if not line.endswith(b"\n") and len(line) == _LINE_BYTES_MAX:
            row_number += 1
            reason = f"the line has more than {_LINE_BYTES_MAX} bytes"
            rejects.append(Reject(row_number, line_number, "", reason, _shown(line)))
            while (rest := file.readline(_LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
                pass
            continue
        if not line.strip():
            continue
        row_number += 1
        try:
            pair = pair_of(line)
        except BadField as bad:
            rejects.append(Reject(row_number, line_number, bad.column, bad.reason, _shown(line)))
        else:
            pairs.append(pair)
            size += len(pair[0]) + len(pair[1])
        if len(pairs) >= CHUNK_ROWS or size >= CHUNK_BYTES or len(rejects) >= CHUNK_ROWS:
            yield RowChunk(first_row, pairs, rejects, position())
            first_row, pairs, rejects, size = row_number + 1, [], [], 0
    if not row_number:
        raise FileRefused(f"{path} is empty: it should hold one JSON object a line", file=str(path))
    yield RowChunk(first_row, pairs, rejects, position())


def _shown(line: bytes) -> str:
    return line[:REJECT_TEXT_MAX].rstrip(b"\r\n").decode("utf-8", "backslashreplace")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_decode = json.JSONDecoder(parse_constant=_no_constant).decode


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadField("", f"byte 0x{line[error.start]:02x} at place {error.start + 1} is no UTF-8") from error
    try:
        found = _decode(text)
    except json.JSONDecodeError as error:
        raise BadField("", f"no JSON: {error.msg} at place {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise BadField("", f"no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadField("", f"the line holds no object but {type(found).__name__}: each line is {{…}}")
    return found


def object_rows(path: Path, options: LoadOptions) -> Callable[[Mapping[str, Any]], tuple[bytes, bytes]]:
    """A function from an object to its key and value; it raises `BadField`. For JSON lines and for Parquet."""
    key_of, _ = key_maker(path, [*options.key_columns, *_others(options)], options)
    value_column = options.value_column

    def pair_of(row: Mapping[str, Any]) -> tuple[bytes, bytes]:
        texts = [_key_text(row, column) for column in options.key_columns]
        try:
            key = key_of(texts).encode()
            value = _value(row, value_column) if value_column is not None else compact_json(row).encode()
        except UnicodeEncodeError as error:
            raise BadField("", "it holds half of a surrogate pair, which is no text") from error
        except ValueError as error:
            raise BadField("", f"it holds a number that JSON does not have: {error}") from error
        except RecursionError as error:
            raise BadField("", "it holds too many brackets within each other") from error
        check_pair(key, value, options)
        return key, value

    return pair_of


def _shown_value(found: Any) -> str:
    try:
        return compact_json(found)[:40]
    except (ValueError, RecursionError):  # a number that JSON does not have, or very many brackets
        return repr(found)[:40] if isinstance(found, float) else "too deep to be shown"


def _others(options: LoadOptions) -> list[str]:
    value = options.value_column
    return [value] if value is not None and value not in options.key_columns else []


def _key_text(row: Mapping[str, Any], column: str) -> str:
    try:
        found = row[column]
    except KeyError:
        raise BadField(column, f"the object has no member {column!r}; it has: {', '.join(list(row)[:20])}") from None
    if isinstance(found, str):
        return found
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    raise BadField(column, f"a key is made of text and whole numbers, this is {_shown_value(found)}")


def _value(row: Mapping[str, Any], column: str) -> bytes:
    try:
        found = row[column]
    except KeyError:
        raise BadField(column, f"the object has no member {column!r}") from None
    return (found if isinstance(found, str) else compact_json(found)).encode()
