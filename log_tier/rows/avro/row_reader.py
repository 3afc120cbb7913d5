"""A schema as one reader: records, arrays, maps and unions."""

from __future__ import annotations

from typing import Any, Final

from log_tier.rows.avro.avro_types import AvroType, NamedTypes
from log_tier.rows.avro.plain_readers import Reader, fixed_size, index_at, plain_reader, sized_end
from log_tier.rows.avro.row_room import RowRoom
from log_tier.rows.avro.varints import Misfit, long_value

__all__ = ["READER_ERRORS", "ReaderTree", "located"]

_ENDS: Final = "the value ends before its end"


def located(error: Exception, part: str) -> Misfit:
    """What a reader has raised, as a `Misfit` one part further out."""
    if isinstance(error, IndexError):
        error = Misfit(_ENDS)
    elif isinstance(error, UnicodeDecodeError):
        error = Misfit(f"it is no UTF-8: {error.reason} at {error.start}")
    assert isinstance(error, Misfit), f"{error!r} is no error of a reader"
    error.path.append(part)
    return error


READER_ERRORS: Final = (Misfit, IndexError, UnicodeDecodeError)
"""What a reader raises."""


class ReaderTree:
    """Readers of the types of one schema; those of named types are made once."""

    def __init__(self, named: NamedTypes) -> None:
        self._named = named
        self._made: dict[str, Reader | None] = {}
        self.takes_room = False
        """Does any of its readers use the room? Rows without arrays, maps and nested records have no use for it."""

    def reader(self, type_: AvroType) -> Reader | None:
        """The reader of a type. None: its values take no bytes."""
        if isinstance(type_, list):
            return self._union(type_)
        if isinstance(type_, str) and type_ in self._named:
            if type_ in self._made:
                return self._made[type_]
            type_ = self._named[type_]
        kind = type_ if isinstance(type_, str) else type_["type"]
        if kind == "record":
            return self._record(type_)
        if kind in ("array", "map"):
            return self._many(type_)
        return plain_reader(type_)

    def fields(self, record: Any) -> list[tuple[str, Reader]]:
        """The readers of the fields of a record that take bytes, by their names."""
        read = [(each["name"], self.reader(each["type"])) for each in record["fields"]]
        return [(name, reader) for name, reader in read if reader is not None]

    def _record(self, record: Any) -> Reader | None:
        fields: list[tuple[str, Reader]] = []
        self.takes_room = True

        def read_record(data: bytes, at: int, end: int, room: RowRoom) -> int:
            room.enter()
            room.take(len(fields))
            name = ""
            try:
                for name, read in fields:  # noqa: B007 - the handler names it
                    at = read(data, at, end, room)
            except READER_ERRORS as error:
                raise located(error, name) from None
            room.depth -= 1
            return at

        self._made[record["name"]] = read_record  # a record may contain itself
        fields.extend(self.fields(record))
        if not fields:
            self._made[record["name"]] = None
        return self._made[record["name"]]

    def _union(self, branches: list[AvroType]) -> Reader:
        readers = [self.reader(each) for each in branches]
        count = len(readers)

        def read_union(data: bytes, at: int, end: int, room: RowRoom) -> int:
            index = data[at]
            if index & 1 or index > 126 or index >= 2 * count:  # the second for numbers of several bytes
                index, at = index_at(data, at, count, "types")
            else:
                at += 1
                index >>= 1
            read = readers[index]
            return at if read is None else read(data, at, end, room)

        return read_union

    def _many(self, type_: Any) -> Reader:
        is_map = type_["type"] == "map"
        read_name = plain_reader("string") if is_map else None
        read_inner = self.reader(type_["values" if is_map else "items"])
        self.takes_room = True
        size = None if is_map else fixed_size(type_["items"], self._named)
        if size is not None:
            return _fixed_items(size)

        def read_many(data: bytes, at: int, end: int, room: RowRoom) -> int:
            room.enter()
            number = left = 0
            stop = None
            try:
                while True:
                    if not left:
                        if stop is not None and at != stop:
                            raise Misfit(f"a block of items ends {abs(at - stop)} bytes from where it says")
                        left, at, stop = _block(data, at, end)
                        if not left:
                            room.depth -= 1
                            return at
                        room.take(left + 1)
                    if read_name is not None:
                        at = read_name(data, at, end, room)
                    if read_inner is not None:
                        at = read_inner(data, at, end, room)
                    number += 1
                    left -= 1
            except READER_ERRORS as error:
                raise located(error, f"[{number}]") from None

        return read_many


def _fixed_items(size: int) -> Reader:
    """The reader of an array whose items all have that many bytes, which may be any: constant time a block."""

    def read_items(data: bytes, at: int, end: int, room: RowRoom) -> int:
        room.enter()
        while True:
            count, at, stop = _block(data, at, end)
            if not count:
                room.depth -= 1
                return at
            room.take(1)
            at += count * size
            if at > end:
                raise Misfit(_ENDS)
            if stop is not None and at != stop:
                raise Misfit(f"a block of items ends {abs(at - stop)} bytes from where it says")

    return read_items


def _block(data: bytes, at: int, end: int) -> tuple[int, int, int | None]:
    """How many items follow, from where, and where they end if that is said. A negative count is followed by a size."""
    count = data[at]
    at += 1
    if count > 127:
        count, at = long_value(data, count, at)
    stop = None
    if count & 1:
        count += 1
        at, stop = sized_end(data, at, end)
    count >>= 1
    if count > end - at:
        raise Misfit(f"{count} items are in {max(end - at, 0)} bytes")
    return count, at, stop
