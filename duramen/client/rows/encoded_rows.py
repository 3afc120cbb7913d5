"""Many rows, encoded one after the other; a row that does not fit is named by its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from duramen.client.model.call_records import iterator_of
from duramen.client.rows.row_codec import RowCodec
from log_tier.model.errors import InvalidRow

__all__ = ["encoded_rows", "numbered_rows"]

R = TypeVar("R")


def encoded_rows(codec: RowCodec[R], rows: Iterable[R]) -> Iterator[tuple[bytes, bytes]]:
    """Rows as pairs. An `InvalidRow` says which row it is of."""
    return numbered_rows(codec, iterator_of(rows, "put_many takes rows"), "put_many", 0)


def numbered_rows(codec: RowCodec[R], rows: Iterator[R], of: str, first: int) -> Iterator[tuple[bytes, bytes]]:
    """The same, where the first row has that number."""
    encode = codec.encode
    for number, row in enumerate(rows, first):
        try:
            yield encode(row)
        except InvalidRow as error:
            raise InvalidRow(f"row {number} of {of}: {error.message}", **error.fields) from error
