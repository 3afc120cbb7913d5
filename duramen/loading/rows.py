"""Rows on their way from a file to a table: chunks, rejects, and how a key is made of columns."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from duramen.loading.errors import FileRefused, RowRefused
from duramen.loading.options import LoadOptions
from log_tier.model.record import KEY_BYTES_MAX, VALUE_BYTES_MAX

__all__ = ["CHUNK_BYTES", "CHUNK_ROWS", "REJECT_TEXT_MAX", "BadField", "Reject", "RowChunk", "check_pair", "key_maker"]

# What is handed to the writer at a time: the progress bar moves some twenty times a second, and memory stays small.
CHUNK_ROWS: Final = 4096
CHUNK_BYTES: Final = 4 * 1024 * 1024

# A reject keeps its row's text up to this length: enough to find and mend it.
REJECT_TEXT_MAX: Final = 64 * 1024


class BadField(Exception):
    """Inside the readers only: what is wrong with a row, and in which column ("" where it is the row as a whole)."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason)
        self.column = column
        self.reason = reason


class Reject(NamedTuple):
    """A row that cannot be loaded."""

    row: int
    """From 1, not counting a header."""
    line: int
    """The line in the file where the row begins, from 1; in a format without lines the row's number."""
    column: str
    """Empty where it is the row as a whole."""
    reason: str
    text: str
    """The row as it is in the file."""

    def error(self, path: Path) -> RowRefused:
        """The error that stops a load here."""
        where = f", column {self.column!r}" if self.column else ""
        return RowRefused(
            f"row {self.row} of {path} (line {self.line}{where}): {self.reason}",
            file=str(path),
            row=self.row,
            line=self.line,
            column=self.column,
        )


class RowChunk(NamedTuple):
    """Some rows, in the file's order."""

    first_row: int
    """The number of its first row, from 1."""
    pairs: Sequence[tuple[bytes, bytes]]
    rejects: Sequence[Reject]
    """Rows between those of `pairs` that could not be read."""
    position: int
    """How much of the file was read, in bytes of the file as it lies on the disk."""

    def before_first_reject(self) -> Sequence[tuple[bytes, bytes]]:
        """The pairs before the first bad row."""
        return self.pairs[: self.rejects[0].row - self.first_row] if self.rejects else self.pairs


def check_pair(key: bytes, value: bytes, options: LoadOptions) -> None:
    """Raise `BadField` where a table would refuse this key or value."""
    if len(key) > KEY_BYTES_MAX:
        column = ", ".join(options.key_columns)
        raise BadField(column, f"the key has {len(key)} bytes ({key[:24]!r}…), keys have 1 to {KEY_BYTES_MAX}")
    if not key:
        raise BadField(options.key_columns[0], "the key is empty")
    if len(value) > VALUE_BYTES_MAX:
        reason = f"the value has {len(value)} bytes, values have at most {VALUE_BYTES_MAX}"
        raise BadField(options.value_column or "", reason)


def key_maker(
    path: Path, columns: Sequence[str], options: LoadOptions
) -> tuple[Callable[[Sequence[str]], str], int | None]:
    """A function from a row's texts to its key, and the place of the value column (None: the whole row).

    Raises `FileRefused` where a column is missing. The function raises `BadField` for an empty part, and for one that
    holds the separator where that would make two different rows look alike. About 0.5 µs.
    """
    check_columns(path, columns, options)
    value_place = None if options.value_column is None else columns.index(options.value_column)
    places = [columns.index(column) for column in options.key_columns]
    if len(places) == 1:
        (place,) = places

        def single(row: Sequence[str]) -> str:
            if not row[place]:
                raise BadField(columns[place], "the key is empty")
            return row[place]

        return single, value_place
    separator, wanted = options.key_separator, len(places) - 1
    parts_of = itemgetter(*places)

    def joined(row: Sequence[str]) -> str:
        parts = parts_of(row)
        key = separator.join(parts)
        if "" in parts:
            raise BadField(options.key_columns[parts.index("")], "this part of the key is empty")
        if key.count(separator) != wanted:
            for column, part in zip(options.key_columns[:-1], parts, strict=False):
                if separator in part:
                    raise BadField(
                        column,
                        f"{part[:40]!r} holds the separator {separator!r}, so other rows could make the same key: "
                        "choose another with --key-separator, or name this column last",
                    )
        return key

    return joined, value_place


def check_columns(path: Path, columns: Sequence[str], options: LoadOptions) -> None:
    """Raise `FileRefused` where the file lacks a column that the options name, or has two of one name."""
    twice = next((name for place, name in enumerate(columns) if name in columns[:place]), None)
    if twice is not None:
        raise FileRefused(f"{path} has two columns named {twice!r}: rename one", file=str(path), column=twice)
    wanted = [*options.key_columns, *([options.value_column] if options.value_column is not None else [])]
    for name in wanted:
        if name not in columns:
            by_lower = {column.lower(): column for column in columns}
            near = difflib.get_close_matches(name.lower(), by_lower, n=1)
            hint = f" (did you mean {by_lower[near[0]]!r}?)" if near else ""
            shown = ", ".join(columns[:30]) + (", …" if len(columns) > 30 else "")
            raise FileRefused(
                f"{path} has no column {name!r}{hint}; its columns are: {shown}", file=str(path), column=name
            )
