"""A row of one schema as one of another, by Avro's rules of resolution, from bytes to bytes.

A reader with two schemas does the same when it reads. The fold has to write what it makes of a row, so it does it here,
with no library (decision 85). What becomes of a value is decided by both types: fields by name or alias, in the order
of the reader; its defaults for those that the row does not have; ints as longs and floats; a union's first type that
reads the value; an enum's symbol, or its default.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from log_tier.model.errors import InvalidSchema
from log_tier.model.record import VALUE_BYTES_MAX
from log_tier.rows.avro.avro_types import AvroType
from log_tier.rows.avro.plain_readers import Reader, fixed_size, index_at, sized_end
from log_tier.rows.avro.row_reader import ReaderTree
from log_tier.rows.avro.row_room import ROW_VALUES_MAX, RowRoom
from log_tier.rows.avro.varints import long_value, skip_long, unzigzag
from log_tier.rows.avro.writing import default_bytes, long_bytes
from log_tier.rows.evolution import Resolution
from log_tier.rows.patches.field_paths import resolved_type
from log_tier.rows.schema import RowSchema

__all__ = ["RowResolution", "TooLarge", "resolution_of"]

_PAIRS_MAX: Final = 64

_FLOATS: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_NAN: Final = bytes.fromhex("000000000000f87f")


class TooLarge(Exception):
    """The row has more bytes, or more values, than one may have."""


class _Output:
    """What was written of a row, and how much may follow."""

    __slots__ = ("items", "left", "parts", "room")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.left = VALUE_BYTES_MAX
        self.items = ROW_VALUES_MAX
        self.room = RowRoom()
        """For what is passed over."""

    def add(self, part: bytes) -> None:
        self.left -= len(part)
        if self.left < 0:
            raise TooLarge
        self.parts.append(part)

    def take(self, items: int) -> None:
        self.items -= items
        if self.items < 0:
            raise TooLarge


_Resolver = Callable[[bytes, int, _Output], int]
"""Writes the value at a place, and returns where it ends."""


class RowResolution:
    """From the rows and values of `writer` to those of `reader`."""

    def __init__(self, writer: RowSchema, reader: RowSchema) -> None:
        self.writer, self.reader = writer, reader
        self._pairs = Resolution(reader, writer, "the row's schema", "the patch's")
        self._skips = ReaderTree(writer.named)
        self._records: dict[tuple[str, str], _Resolver] = {}
        try:
            self._pairs.check()
            self.reads_rows = True
        except InvalidSchema:
            self.reads_rows = False

    def reads(self, read: AvroType, written: AvroType) -> bool:
        """Is each value of a type of the writer's one of the reader's?"""
        return self._pairs.reads(read, written)

    def body(self, data: bytes) -> bytes:
        """A row, without its framing, which its judge has accepted. Only where `reads_rows`. Raises `TooLarge`."""
        return self.value(data, self.writer.name, self.reader.name)

    def value(self, data: bytes, written: AvroType, read: AvroType) -> bytes:
        """A value of a type that the other one reads. Raises `TooLarge`. O(bytes of both)."""
        out = _Output()
        end = self._resolver(written, read)(data, 0, out)
        assert end == len(data), f"a value of {len(data)} bytes was read up to {end}"
        return b"".join(out.parts)

    def first_that_reads(self, union: Sequence[AvroType], written: AvroType) -> int | None:
        """The place in a union of the reader's of the first type that reads a value; None: none does."""
        return next((place for place, each in enumerate(union) if self._pairs.reads(each, written)), None)

    def _resolver(self, written: AvroType, read: AvroType) -> _Resolver:
        written, read = resolved_type(written, self.writer.named), resolved_type(read, self.reader.named)
        if isinstance(written, list):
            return _chosen([self._resolver(each, read) for each in written])
        if isinstance(read, list):
            place = self.first_that_reads(read, written)
            assert place is not None, "no type of the union reads the value"
            return _behind(long_bytes(place), self._resolver(written, read[place]))
        kind = written if isinstance(written, str) else written["type"]
        wanted = read if isinstance(read, str) else read["type"]
        if kind == "record":
            return self._record(written, read)
        if kind in ("array", "map"):
            return self._many(written, read)
        if kind == "enum":
            return _symbols(written, read)
        if wanted in _FLOATS and kind != wanted:
            return _as_float(kind, _FLOATS[wanted])
        return _copied(self._skips.reader(written))

    def _record(self, written: Any, read: Any) -> _Resolver:
        pair = (written["name"], read["name"])
        if pair in self._records:
            return self._records[pair]
        # A record may contain itself: what is inside calls this one.
        self._records[pair] = lambda data, at, out: self._records[pair](data, at, out)
        try:
            self._records[pair] = self._new_record(written, read)
        except OverflowError:  # a default of more bytes than a row has
            del self._records[pair]
            raise
        return self._records[pair]

    def _new_record(self, written: Any, read: Any) -> _Resolver:
        places = {each["name"]: place for place, each in enumerate(written["fields"])}
        defaults: dict[int, bytes] = {}
        into: list[list[tuple[int, _Resolver]]] = [[] for _ in places]
        for slot, each in enumerate(read["fields"]):
            name = next((name for name in (each["name"], *each.get("aliases", ())) if name in places), None)
            if name is None:
                defaults[slot] = default_bytes(each["default"], each["type"], self.reader.named)
            else:
                place = places[name]
                into[place].append((slot, self._resolver(written["fields"][place]["type"], each["type"])))
        skips = [self._skips.reader(each["type"]) for each in written["fields"]]
        count = len(read["fields"])

        def resolve_record(data: bytes, at: int, out: _Output) -> int:
            outer, found = out.parts, dict[int, list[bytes]]()
            for slots, skip in zip(into, skips, strict=True):
                end = at
                for slot, resolve in slots:
                    out.parts = found[slot] = []
                    end = resolve(data, at, out)
                if not slots and skip is not None:
                    end = skip(data, at, len(data), out.room)
                at = end
            out.parts = outer
            for slot in range(count):
                if slot in found:
                    outer += found[slot]
                else:
                    out.add(defaults[slot])
            return at

        return resolve_record

    def _many(self, written: Any, read: Any) -> _Resolver:
        inside = "values" if written["type"] == "map" else "items"
        given, wanted = (resolved_type(each[inside], side.named) for each, side in self._sides(written, read))
        size = fixed_size(given, self.writer.named) if inside == "items" else None
        if size is not None and fixed_size(wanted, self.reader.named) is not None:
            # Such items do not count, and there may be millions of them.
            return _copied(self._skips.reader(written)) if given == "double" or given != "float" else _floats(wanted)
        resolve = self._resolver(given, wanted)
        is_map = inside == "values"

        def resolve_many(data: bytes, at: int, out: _Output) -> int:
            while True:
                count, at = _long(data, at)
                if count < 0:
                    count, at = -count, sized_end(data, at, len(data))[0]
                out.take(count + 1)
                out.add(long_bytes(count))
                if not count:
                    return at
                for _ in range(count):
                    if is_map:
                        end = sized_end(data, at, len(data))[1]
                        out.add(data[at:end])
                        at = end
                    at = resolve(data, at, out)

        return resolve_many

    def _sides(self, written: Any, read: Any) -> tuple[tuple[Any, RowSchema], tuple[Any, RowSchema]]:
        return (written, self.writer), (read, self.reader)


@lru_cache(maxsize=_PAIRS_MAX)
def resolution_of(writer: RowSchema, reader: RowSchema) -> RowResolution:
    """The resolution of two schemas. Some ms to make for wide ones."""
    return RowResolution(writer, reader)


def _chosen(branches: Sequence[_Resolver]) -> _Resolver:
    def resolve_union(data: bytes, at: int, out: _Output) -> int:
        index, at = index_at(data, at, len(branches), "types")
        return branches[index](data, at, out)

    return resolve_union


def _behind(prefix: bytes, resolve: _Resolver) -> _Resolver:
    def resolve_into(data: bytes, at: int, out: _Output) -> int:
        out.add(prefix)
        return resolve(data, at, out)

    return resolve_into


def _copied(skip: Reader | None) -> _Resolver:
    def copy(data: bytes, at: int, out: _Output) -> int:
        if skip is None:
            return at
        end = skip(data, at, len(data), out.room)
        out.add(data[at:end])
        return end

    return copy


def _symbols(written: Any, read: Any) -> _Resolver:
    known = {symbol: place for place, symbol in enumerate(read["symbols"])}
    places = [long_bytes(known.get(each, known.get(read.get("default"), 0))) for each in written["symbols"]]

    def resolve_symbol(data: bytes, at: int, out: _Output) -> int:
        index, at = index_at(data, at, len(places), "symbols")
        out.add(places[index])
        return at

    return resolve_symbol


def _as_float(kind: str, packed: struct.Struct) -> _Resolver:
    """An int, a long or a float of 32 bits as a float."""

    def of_integer(data: bytes, at: int, out: _Output) -> int:
        number, end = _long(data, at)
        out.add(packed.pack(number))
        return end

    def of_float(data: bytes, at: int, out: _Output) -> int:
        (number,) = _FLOATS["float"].unpack_from(data, at)
        out.add(packed.pack(number) if number == number else _NAN)
        return at + 4

    return of_float if kind == "float" else of_integer


def _floats(wanted: Any) -> _Resolver:
    """An array of floats of 32 bits as one of 32 or 64, block by block."""

    def resolve_floats(data: bytes, at: int, out: _Output) -> int:
        while True:
            count, at = _long(data, at)
            if count < 0:
                count, at = -count, sized_end(data, at, len(data))[0]
            out.take(1)
            out.add(long_bytes(count))
            if not count:
                return at
            end = at + 4 * count
            if wanted == "float":
                out.add(data[at:end])
            else:
                numbers = struct.unpack_from(f"<{count}f", data, at)
                out.add(b"".join([_FLOATS["double"].pack(each) if each == each else _NAN for each in numbers]))
            at = end

    return resolve_floats


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value > 127:
        end = skip_long(data, at)
        return unzigzag(long_value(data, value, at)[0]), end
    return unzigzag(value), at
