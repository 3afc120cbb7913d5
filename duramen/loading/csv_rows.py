"""CSV as RFC 4180 has it: a header, quotes doubled inside quotes, rows of one length, UTF-8.

Bytes that are no UTF-8 are carried through the parser as surrogates and found when a row is encoded again: so the
parser works on whole lines at C speed, and the error still names row and column.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final

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
from log_tier.model.record import KEY_BYTES_MAX, VALUE_BYTES_MAX

__all__ = ["PairMaker", "RowColumns", "csv_pairs", "csv_rows"]

# Distinct fields whose JSON is remembered. Most columns of most tables repeat themselves, and a look-up costs a tenth
# of an encoding.
_ENCODED_MAX: Final = 65_536

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class _EncodedFields(dict[str, str]):
    """The JSON of a field by its text, made when it is first asked for. Bounded: it begins anew when it is full."""

    def __init__(self, numbers: bool) -> None:
        super().__init__()
        self._numbers = numbers

    def __missing__(self, field: str) -> str:
        if len(self) >= _ENCODED_MAX:
            self.clear()
        is_number = self._numbers and _NUMBER.fullmatch(field)
        encoded = self[field] = field if is_number else json.dumps(field, ensure_ascii=False)
        return encoded


PairMaker = Callable[[list[str], Sequence[str]], tuple[bytes, bytes]]
"""From a row's fields, and the lines that it was read from, to its key and value. Raises `BadField`."""

RowColumns = Callable[[list[str]], PairMaker]
"""From the names in the header to what makes pairs. Raises `FileRefused`."""


def csv_rows(path: Path, file: IO[bytes], position: Callable[[], int], options: LoadOptions) -> Generator[RowChunk]:
    """Yield the rows of an open CSV file in chunks. `position`: how far the file on the disk was read.

    Raises `FileRefused` for a header that cannot be used; whatever is wrong with a row is a reject. About 7 µs a row
    of twenty short fields.
    """

    def columns_of(columns: list[str]) -> PairMaker:
        key_of, value_place = key_maker(path, columns, options)
        value_of = _value_maker(columns, value_place, options)

        def pair_of(row: list[str], lines: Sequence[str]) -> tuple[bytes, bytes]:
            key, value = key_of(row).encode(), value_of(row)
            if len(key) > KEY_BYTES_MAX or len(value) > VALUE_BYTES_MAX:
                check_pair(key, value, options)
            return key, value

        return pair_of

    yield from csv_pairs(path, file, position, options.delimiter, columns_of)


def csv_pairs(
    path: Path,
    file: IO[bytes],
    position: Callable[[], int],
    delimiter: str,
    columns_of: RowColumns,
    *,
    blank_rows: bool = False,
) -> Generator[RowChunk]:
    """The same, where `columns_of` says what becomes of a row. `blank_rows`: an empty line is a row of one field."""
    # The parser's own limit is 128 KiB and process-wide. A field as large as a value may be is no error here.
    csv.field_size_limit(max(csv.field_size_limit(), VALUE_BYTES_MAX))
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        yield from _rows(path, text, position, delimiter, columns_of, blank_rows)
    finally:
        text.detach()  # the file is the caller's to close


def _rows(
    path: Path,
    text: Iterable[str],
    position: Callable[[], int],
    delimiter: str,
    columns_of: RowColumns,
    blank_rows: bool,
) -> Iterator[RowChunk]:
    lines: list[str] = []
    reader = csv.reader(_remember(text, lines), strict=True, delimiter=delimiter)
    columns = _header(path, reader)
    pair_of = columns_of(columns)
    width = len(columns)
    pairs: list[tuple[bytes, bytes]] = []
    rejects: list[Reject] = []
    first_row = 1
    row_number = size = 0
    while True:
        lines.clear()
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            row_number += 1
            rejects.append(_reject(row_number, line, lines, _column_at(lines, columns, delimiter), str(error)))
            continue
        if not row:
            if not blank_rows:
                continue
            row = [""]
        row_number += 1
        try:
            if len(row) != width:
                raise BadField(*_ragged(row, columns))
            key, value = pair_of(row, lines)
        except BadField as bad:
            rejects.append(_reject(row_number, line, lines, bad.column, bad.reason))
            continue
        except UnicodeEncodeError:
            rejects.append(_reject(row_number, line, lines, *_not_utf8(row, columns)))
            continue
        pairs.append((key, value))
        size += len(key) + len(value)
        if len(pairs) >= CHUNK_ROWS or size >= CHUNK_BYTES or len(rejects) >= CHUNK_ROWS:
            yield RowChunk(first_row, pairs, rejects, position())
            first_row, pairs, rejects, size = row_number + 1, [], [], 0
    yield RowChunk(first_row, pairs, rejects, position())


def _remember(text: Iterable[str], lines: list[str]) -> Iterator[str]:
    """The lines, each noted before it is parsed: a reject shows its row as it was."""
    for line in text:
        lines.append(line)
        yield line


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    try:
        columns = next(reader, None)
    except csv.Error as error:
        raise FileRefused(f"the header of {path} cannot be read: {error}", file=str(path), line=1) from error
    if not columns:
        raise FileRefused(f"{path} is empty: a CSV begins with a line of column names", file=str(path))
    for name in columns:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise FileRefused(
                f"the header of {path} is no UTF-8 text ({name[:40]!r}); convert the file first", file=str(path), line=1
            ) from error
    return columns


def _value_maker(
    columns: Sequence[str], value_place: int | None, options: LoadOptions
) -> Callable[[Sequence[str]], bytes]:
    if value_place is not None:
        place = value_place
        return lambda row: row[place].encode()
    encoded = _EncodedFields(options.numbers).__getitem__
    names = [json.dumps(name, ensure_ascii=False).replace("%", "%%") for name in columns]
    template = "{" + ",".join(f"{name}:%s" for name in names) + "}"
    return lambda row: (template % tuple(map(encoded, row))).encode()


def _reject(row: int, line: int, lines: Sequence[str], column: str, reason: str) -> Reject:
    text = "".join(lines)[:REJECT_TEXT_MAX].rstrip("\r\n")
    return Reject(
        row, line, column, reason, text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    )


def _ragged(row: Sequence[str], columns: Sequence[str]) -> tuple[str, str]:
    reason = f"the row has {len(row)} fields, the header has {len(columns)}"
    return (columns[len(row)] if len(row) < len(columns) else columns[-1], reason)


def _not_utf8(row: Sequence[str], columns: Sequence[str]) -> tuple[str, str]:
    for name, field in zip(columns, row, strict=False):
        try:
            field.encode()
        except UnicodeEncodeError as error:
            byte = ord(field[error.start]) - 0xDC00
            return name, f"byte 0x{byte:02x} is no UTF-8; convert the file first (iconv -t utf-8)"
    raise AssertionError("a row that cannot be encoded has a field that cannot")


def _column_at(lines: Sequence[str], columns: Sequence[str], delimiter: str) -> str:
    """The column in which the parser stopped: the one whose quotes are wrong."""
    place, quoted, at_start = 0, False, True
    text = "".join(lines)
    at = 0
    while at < len(text):
        sign = text[at]
        if quoted:
            if sign == '"':
                if text[at + 1 : at + 2] == '"':
                    at += 1
                else:
                    quoted = False
                    if text[at + 1 : at + 2] not in (delimiter, "\r", "\n", ""):
                        break
        elif sign == '"' and at_start:
            quoted = True
        at_start = not quoted and sign == delimiter
        place += at_start
        at += 1
    return columns[min(place, len(columns) - 1)]
