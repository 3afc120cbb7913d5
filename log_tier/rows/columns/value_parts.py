"""The values of a column in Avro's binary: for each row, the bytes of its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from log_tier.rows.avro.avro_types import AvroType, NamedTypes, branch_name
from log_tier.rows.avro.writing import default_bytes, long_bytes, sized_bytes
from log_tier.rows.columns.arrow_types import FoundType, arrow_type, found_type, optional_branch
from log_tier.rows.columns.cast_columns import UnfitColumn, cast_column, first_unfit, plain_column, shown

__all__ = ["ValueParts"]

_DEFAULTLESS: Final = "it is missing, and has no default"


class ValueParts:
    """Writes columns of the types of one schema."""

    def __init__(self, named: NamedTypes) -> None:
        self._named = named

    def of_column(self, array: pa.Array, type_: AvroType) -> list[bytes]:
        """The bytes of each value. Raises `UnfitColumn`. O(their size)."""
        array = plain_column(array)
        if isinstance(type_, list):
            return self._union(array, type_)
        found = found_type(type_, self._named)
        if found.kind == "null":
            if array.null_count < len(array):
                raise UnfitColumn(shown(array, _first(array.is_valid())), "null")
            return [b""] * len(array)
        if array.null_count:
            raise UnfitColumn("null", found.logical or found.kind, "the field is not optional")
        if found.kind == "record":
            return self._record(array, found.type)
        if found.kind == "array":
            return self._array(array, found.type)
        if found.kind == "map":
            return self._map(array, found.type)
        return _leaves(array, found, arrow_type(type_, self._named))

    def of_fields(
        self, columns: Mapping[str, pa.Array], fields: Sequence[Mapping[str, Any]], count: int
    ) -> list[bytes]:
        """The bytes of records with these columns. A field without a column has its default."""
        parts = []
        for field in fields:
            name = field["name"]
            try:
                if name in columns:
                    parts.append(self.of_column(columns[name], field["type"]))
                elif "default" in field:
                    parts.append([default_bytes(field["default"], field["type"], self._named)] * count)
                else:
                    raise UnfitColumn("missing", _name_of(field["type"]), _DEFAULTLESS)
            except UnfitColumn as unfit:
                unfit.path.append(name)
                raise
        return [b"".join(each) for each in zip(*parts, strict=True)] if parts else [b""] * count

    def _record(self, array: pa.Array, record: Any) -> list[bytes]:
        if not kinds.is_struct(array.type):
            if not len(array):
                return []
            raise UnfitColumn(shown(array, 0), f"a struct of {record['name']}")
        columns = _children(array)
        known = {each["name"] for each in record["fields"]}
        for name in columns:
            if name not in known:
                unfit = UnfitColumn("given", f"no such field in {record['name']}")
                unfit.path.append(name)
                raise unfit
        return self.of_fields(columns, record["fields"], len(array))

    def _array(self, array: pa.Array, type_: Any) -> list[bytes]:
        if not _is_list(array.type):
            if not len(array):
                return []
            raise UnfitColumn(shown(array, 0), "a list")
        try:
            items = self.of_column(array.flatten(), type_["items"])
        except UnfitColumn as unfit:
            unfit.path.append("[]")
            raise
        return _blocks(array.value_lengths().to_pylist(), items)

    def _map(self, array: pa.Array, type_: Any) -> list[bytes]:
        if kinds.is_map(array.type):
            offsets = array.offsets.to_pylist()
            first, count = offsets[0], offsets[-1] - offsets[0]
            lengths = [end - start for start, end in pairwise(offsets)]
            names, values = array.keys.slice(first, count), array.items.slice(first, count)
        elif _is_list(array.type) and kinds.is_struct(array.type.value_type) and array.type.value_type.num_fields == 2:
            lengths = array.value_lengths().to_pylist()  # what a map is where there are none, as in Polars
            names, values = array.flatten().flatten()
        elif not len(array):
            return []
        else:
            raise UnfitColumn(shown(array, 0), "a map")
        try:
            pairs = zip(self.of_column(names, "string"), self.of_column(values, type_["values"]), strict=True)
        except UnfitColumn as unfit:
            unfit.path.append("[]")
            raise
        return _blocks(lengths, [name + value for name, value in pairs])

    def _union(self, array: pa.Array, union: list[AvroType]) -> list[bytes]:
        place = optional_branch(union)
        if place is None:
            return self._branches(array, union)
        head = long_bytes(place)
        if not array.null_count or union[place] == "null":
            return [head + each for each in self.of_column(array, union[place])]
        if "null" not in union:
            raise UnfitColumn("null", _name_of(union), "the field is not optional")
        null = long_bytes(union.index("null"))
        others = iter(self.of_column(array.drop_null(), union[place]))
        return [head + next(others) if valid else null for valid in array.is_valid().to_pylist()]

    def _branches(self, array: pa.Array, union: list[AvroType]) -> list[bytes]:
        """A struct with a field for each type of the union, of which one is not null."""
        names = [branch_name(each) for each in union]
        expected = f"a struct of {', '.join(each for each in names if each != 'null')[:200]}, one of them not null"
        made: list[bytes | None] = [None] * len(array)
        if not kinds.is_null(array.type):
            if not kinds.is_struct(array.type) or not {each.name for each in array.type} <= {*names}:
                raise UnfitColumn(shown(array, 0) if len(array) else str(array.type), expected)
            for name, child in _children(array).items():
                index = names.index(name)
                head = long_bytes(index)
                places = np.flatnonzero(np.asarray(child.is_valid())).tolist()
                for at, each in zip(places, self.of_column(child.drop_null(), union[index]), strict=True):
                    if made[at] is not None:
                        raise UnfitColumn(shown(array, at), expected)
                    made[at] = head + each
        if "null" not in names and None in made:
            raise UnfitColumn("null", expected)
        null = long_bytes(names.index("null")) if "null" in names else b""
        return [null if each is None else each for each in made]


def _blocks(lengths: Sequence[int], items: Sequence[bytes]) -> list[bytes]:
    ends = accumulate(lengths)
    return [
        b"".join((long_bytes(length), *items[end - length : end], b"\0")) if length else b"\0"
        for length, end in zip(lengths, ends, strict=True)
    ]


def _children(array: pa.Array) -> dict[str, pa.Array]:
    """The columns of a struct, null where it is null."""
    return dict(zip((each.name for each in array.type), array.flatten(), strict=True))


def _is_list(type_: pa.DataType) -> bool:
    return bool(kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_))


def _first(mask: pa.Array) -> int:
    return int(np.argmax(np.asarray(mask)))


def _name_of(type_: AvroType) -> str:
    if isinstance(type_, list):
        return " or ".join(map(branch_name, type_))[:200]
    return str(type_.get("logicalType", branch_name(type_)) if isinstance(type_, dict) else type_)


# --- values that contain no others


def _leaves(array: pa.Array, found: FoundType, target: pa.DataType) -> list[bytes]:
    name = found.logical or found.kind
    if name == "uuid":
        return _uuids(array, found)
    column = cast_column(array, name, target if name != "enum" else pa.string())
    if name == "decimal":
        return _decimals(column, found, target)
    if name == "enum":
        return _symbols(column, found.type["symbols"])
    if found.kind in ("int", "long"):
        whole = column.view(pa.int64() if target.bit_width == 64 else pa.int32())
        return [long_bytes(each) for each in whole.to_pylist()]
    if found.kind == "boolean":
        return [b"\1" if each else b"\0" for each in column.to_pylist()]
    if found.kind in ("float", "double"):
        size = target.bit_width // 8
        raw = column.to_numpy(zero_copy_only=False).astype(f"<f{size}", copy=False).tobytes()
        return [raw[at : at + size] for at in range(0, len(raw), size)]
    if found.kind == "fixed":
        return column.to_pylist()  # type: ignore[no-any-return]
    return [sized_bytes(each) for each in column.cast(pa.binary()).to_pylist()]


def _symbols(column: pa.Array, symbols: Sequence[str]) -> list[bytes]:
    known = {each: long_bytes(number) for number, each in enumerate(symbols)}
    values = column.to_pylist()
    unknown = next((place for place, each in enumerate(values) if each not in known), None)
    if unknown is not None:
        raise UnfitColumn(shown(column, unknown), f"one of {', '.join(symbols)[:200]}")
    return [known[each] for each in values]


def _uuids(array: pa.Array, found: FoundType) -> list[bytes]:
    binary = found.kind == "fixed"
    is_text = kinds.is_string(array.type) or kinds.is_large_string(array.type)
    column = cast_column(array, "uuid", pa.string() if is_text else pa.binary())
    make: Callable[[Any], UUID] = UUID if is_text else (lambda raw: UUID(bytes=raw))
    try:
        made = list(map(make, column.to_pylist()))
    except ValueError:
        place = first_unfit(column, lambda each: make(each[0].as_py()))
        raise UnfitColumn(shown(column, place), "uuid") from None
    return [each.bytes if binary else sized_bytes(str(each).encode()) for each in made]


def _decimals(column: pa.Array, found: FoundType, target: pa.DataType) -> list[bytes]:
    if kinds.is_string(target):
        numbers = [_unscaled(column, place, found) for place in range(len(column))]
    else:
        width = target.bit_width // 8
        raw = memoryview(column.buffers()[1])[column.offset * width : (column.offset + len(column)) * width]
        numbers = [
            int.from_bytes(raw[at : at + width], "little", signed=True) for at in range(0, len(column) * width, width)
        ]
    if found.kind == "fixed":
        size = found.type["size"]
        return [each.to_bytes(size, signed=True) for each in numbers]
    return [sized_bytes(each.to_bytes((each.bit_length() + 8) // 8, signed=True)) for each in numbers]


def _unscaled(column: pa.Array, place: int, found: FoundType) -> int:
    precision, scale = found.type["precision"], found.type.get("scale", 0)
    try:
        sign, digits, exponent = Decimal(column[place].as_py()).as_tuple()
    except ArithmeticError:
        raise UnfitColumn(shown(column, place), "decimal") from None
    if isinstance(exponent, int) and -scale <= exponent <= precision and len(digits) + exponent + scale <= precision:
        whole = int("".join(map(str, digits)) + "0" * (exponent + scale))
        return -whole if sign else whole
    raise UnfitColumn(shown(column, place), f"decimal of {precision} digits, {scale} of them behind the point")
