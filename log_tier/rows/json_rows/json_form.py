"""Rows as plain JSON, for programs that have no types of the schema: the command line, the Redis protocol, pages.

null, boolean, int, long, string      as JSON has them
float, double                         a number; "NaN", "Infinity", "-Infinity"
bytes, fixed                          base64
decimal                               "123.45"
date, time, timestamp                 ISO 8601: "2026-11-27", "18:30:00", "2026-11-27T18:30:00Z"; local ones without Z
uuid, enum                            text
record, map                           an object
array                                 a list
a union of null and one other type    null, or a value of the other
any other union                       null, or {"type": value} with the type's name
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any, Final

from log_tier.model.errors import InvalidRow, InvalidValue, LimitExceeded
from log_tier.rows.avro.avro_types import AvroType, branch_name
from log_tier.rows.avro.row_room import VALUE_DEPTH_MAX
from log_tier.rows.avro.varints import Misfit, long_value, unzigzag
from log_tier.rows.avro.writing import BODY_BYTES_MAX, default_bytes, leaf_bytes, long_bytes, sized_bytes
from log_tier.rows.json_rows.json_leaves import Unfit, leaf_from_json, leaf_to_json
from log_tier.rows.json_rows.read_as import ReadAs, is_optional
from log_tier.rows.json_rows.strict_json import strict_json
from log_tier.rows.judge import row_reader
from log_tier.rows.schema import RowSchema

__all__ = ["row_from_json", "row_to_json", "value_from_json", "value_to_json"]

_TEXT_MAX: Final = 16 << 20
"""Characters of a row's names. A byte of Avro can stand for a record of a thousand nulls, with their names."""

_DEFAULT_COST: Final = 16
"""Bytes for which a default counts beyond its length. Three characters can ask for a thousand of them."""

_SHOWN_MAX: Final = 60
"""Characters of a value in a message."""

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def row_to_json(schema: RowSchema, body: bytes, newest: RowSchema | None = None) -> str:
    """A row, without its framing, as JSON: an object with all fields in the schema's order; with `newest`, in that
    one's order, with its defaults (`read_as.py`).

    Raises `InvalidValue` for bytes that are no row of the schema, `LimitExceeded` where names alone have more than
    16 Mi characters. Some 40 µs for a row of 8 fields.
    """
    try:
        row_reader(schema, ())(body, 0)
    except Misfit as misfit:
        raise InvalidValue(f"the value is no row of {schema.name}: {misfit.place or 'it'}: {misfit.reason}") from None
    row = _Decoder(schema, body).value(schema.name)
    if newest is not None:

        def default(field: Any) -> Any:
            return _Decoder(newest, default_bytes(field["default"], field["type"], newest.named)).value(field["type"])

        row = ReadAs(schema, newest, default).document(row)
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def row_from_json(schema: RowSchema, text: str) -> bytes:
    """A row, without its framing, of JSON. Fields that are missing have their defaults.

    Raises `InvalidRow`, which names the field, what it is and what is expected: for a value of another type, a field
    that the schema does not have, and one that is missing and has no default. O(size of the text).
    """
    try:
        document = strict_json(text)
    except ValueError as error:
        raise InvalidRow(f"the row is no JSON: {error}", field="", expected=f"an object of {schema.name}") from None
    try:
        body = _Encoder(schema).value(document, schema.name, 1)
        row_reader(schema, ())(body, 0)
    except Unfit as unfit:
        raise _refused(unfit) from None
    except OverflowError:
        raise InvalidRow(
            f"the row has more than {BODY_BYTES_MAX} bytes: split it", field="", expected="a row of at most 4 MiB"
        ) from None
    except Misfit as misfit:
        raise InvalidRow(
            f"the field {misfit.place}: {misfit.reason}", field=misfit.place, expected="a value that readers accept"
        ) from None
    return body


def value_from_json(schema: RowSchema, type_: AvroType, value: Any, name: str) -> bytes:
    """A value of a type of the schema, of what JSON is parsed to. `name`: of the field, for messages.

    Raises `InvalidRow`, which names the field, what it is and what is expected.
    """
    try:
        return _Encoder(schema).value(value, type_, 2)
    except Unfit as unfit:
        unfit.path.append(name)
        raise _refused(unfit) from None
    except OverflowError:
        raise InvalidRow(
            f"the field {name} has more than {BODY_BYTES_MAX} bytes: split it",
            field=name,
            expected="a row of at most 4 MiB",
        ) from None


def value_to_json(schema: RowSchema, type_: AvroType, data: bytes) -> Any:
    """A value of a type of the schema, which a reader has accepted, as JSON is made of it."""
    return _Decoder(schema, data).value(type_)


def _refused(unfit: Unfit) -> InvalidRow:
    place = ""
    for part in reversed(unfit.path):
        place += part if part.startswith("[") or not place else f".{part}"
    where = f"the field {place}" if place else "the row"
    fix = f": {unfit.fix}" if unfit.fix else ""
    given = "missing" if unfit.value is _MISSING else _shown(unfit.value)
    return InvalidRow(f"{where} is {given}, expected {unfit.expected}{fix}", field=place, expected=unfit.expected)


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):  # not its whole text
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = json.dumps(value[: _SHOWN_MAX + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 4]} …"


_MISSING: Final = object()


class _Decoder:
    """Reads what the judge has accepted."""

    def __init__(self, schema: RowSchema, data: bytes) -> None:
        self._named = schema.named
        self._data = data
        self._at = 0
        self._left = _TEXT_MAX
        self._names: dict[str, int] = {}
        """How many characters the names of a record's fields have."""

    def value(self, type_: AvroType) -> Any:
        if isinstance(type_, list):
            branch = type_[self._long()]
            value = self.value(branch)
            return value if branch == "null" or is_optional(type_) else {branch_name(branch): value}
        found: Any = self._named.get(type_, type_) if isinstance(type_, str) else type_
        kind = found if isinstance(found, str) else found["type"]
        if kind == "record":
            self._spend(self._names_of(found))
            return {each["name"]: self.value(each["type"]) for each in found["fields"]}
        if kind == "array":
            return [self.value(found["items"]) for _ in self._items()]
        if kind == "map":
            return {self._bytes(self._long()).decode(): self.value(found["values"]) for _ in self._items()}
        return leaf_to_json(self._leaf(kind, found), found)

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise LimitExceeded(
                f"the row has more than {_TEXT_MAX} characters as JSON: read it with a client that has its schema",
                limit=_TEXT_MAX,
                size=_TEXT_MAX - self._left,
            )

    def _names_of(self, record: Any) -> int:
        found = self._names.get(record["name"])
        if found is None:
            found = self._names[record["name"]] = sum(len(each["name"]) + 4 for each in record["fields"])
        return found

    def _leaf(self, kind: str, found: Any) -> Any:
        if kind in ("int", "long"):
            return self._long()
        if kind == "string":
            return self._bytes(self._long()).decode()
        if kind == "bytes":
            return self._bytes(self._long())
        if kind == "fixed":
            return self._bytes(found["size"])
        if kind == "boolean":
            return self._bytes(1) == b"\1"
        if kind == "enum":
            return found["symbols"][self._long()]
        if kind == "null":
            return None
        return (_FLOAT.unpack(self._bytes(4)) if kind == "float" else _DOUBLE.unpack(self._bytes(8)))[0]

    def _items(self) -> Iterable[int]:
        while count := self._long():
            if count < 0:
                self._long()
            yield from range(abs(count))

    def _bytes(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        return self._data[start : self._at]

    def _long(self) -> int:
        value = self._data[self._at]
        self._at += 1
        if value > 127:
            value, self._at = long_value(self._data, value, self._at)
        return unzigzag(value)


class _Encoder:
    """Writes values of JSON."""

    def __init__(self, schema: RowSchema) -> None:
        self._named = schema.named
        self._left = 2 * BODY_BYTES_MAX
        self._defaults: dict[tuple[str, str], bytes] = {}

    def _counted(self, part: bytes, cost: int = 1) -> bytes:
        """A part of the row. Each costs more than it has bytes, as a short text may ask for many that have none."""
        self._left -= len(part) + cost
        if self._left < 0:
            raise OverflowError("the row has too many bytes")
        return part

    def value(self, value: Any, type_: AvroType, depth: int) -> bytes:
        if isinstance(type_, list):
            return self._union(value, type_, depth)
        found: Any = self._named.get(type_, type_) if isinstance(type_, str) else type_
        kind = found if isinstance(found, str) else found["type"]
        if kind not in ("record", "array", "map"):
            try:
                return self._counted(leaf_bytes(leaf_from_json(value, found), found))
            except UnicodeEncodeError:
                raise Unfit(ascii(value), "a text", "half of a surrogate pair is none") from None
        if depth > VALUE_DEPTH_MAX:
            raise Unfit(value, f"a value that is nested at most {VALUE_DEPTH_MAX} deep")
        if kind == "record":
            return self._record(value, found, depth)
        return self._array(value, found, depth) if kind == "array" else self._map(value, found, depth)

    def _record(self, value: Any, record: Any, depth: int) -> bytes:
        if not isinstance(value, dict):
            raise Unfit(value, f"an object of {record['name']}")
        parts: list[bytes] = []
        known = 0
        for each in record["fields"]:
            name = each["name"]
            try:
                if name in value:
                    known += 1
                    parts.append(self.value(value[name], each["type"], depth + 1))
                elif "default" in each:
                    parts.append(self._counted(self._default(record["name"], each), _DEFAULT_COST))
                else:
                    raise Unfit(_MISSING, _name_of(each["type"]), "give it, as it has no default")
            except Unfit as unfit:
                unfit.path.append(name)
                raise
        if known < len(value):
            names = [each["name"] for each in record["fields"]]
            other = next(name for name in value if name not in names)
            unknown = Unfit(value[other], f"no such field in {record['name']}", f"it has {', '.join(names)[:200]}")
            unknown.path.append(ascii(other)[1:-1][:_SHOWN_MAX])
            raise unknown
        return b"".join(parts)

    def _default(self, record: str, field: Any) -> bytes:
        found = self._defaults.get((record, field["name"]))
        if found is None:
            found = default_bytes(field["default"], field["type"], self._named)
            self._defaults[record, field["name"]] = found
        return found

    def _array(self, value: Any, array: Any, depth: int) -> bytes:
        if not isinstance(value, list):
            raise Unfit(value, "a list")
        return self._block(value, array["items"], depth)

    def _map(self, value: Any, map_: Any, depth: int) -> bytes:
        if not isinstance(value, dict):
            raise Unfit(value, "an object")
        return self._block(value.values(), map_["values"], depth, value)

    def _block(self, values: Any, type_: AvroType, depth: int, names: Iterable[str] | None = None) -> bytes:
        if not values:
            return b"\0"
        parts = [long_bytes(len(values))]
        for number, (name, each) in enumerate(zip(values if names is None else names, values, strict=True)):
            try:
                if names is not None:
                    parts.append(sized_bytes(_utf8(name)))
                parts.append(self.value(each, type_, depth + 1))
            except Unfit as unfit:
                unfit.path.append(f"[{number}]")
                raise
        parts.append(b"\0")
        return b"".join(parts)

    def _union(self, value: Any, union: list[AvroType], depth: int) -> bytes:
        if value is None and "null" in union:
            return long_bytes(union.index("null"))
        if is_optional(union):
            index = 1 if union[0] == "null" and len(union) == 2 else 0
            try:
                return long_bytes(index) + self.value(value, union[index], depth)
            except Unfit as unfit:
                if not unfit.path and len(union) == 2:
                    unfit.expected += " or null"
                raise
        names = [branch_name(each) for each in union]
        if isinstance(value, dict) and len(value) == 1:
            ((name, inner),) = value.items()
            if name in names:
                index = names.index(name)
                return long_bytes(index) + self.value(inner, union[index], depth)
        raise Unfit(value, f"an object of one type and its value: {', '.join(names)[:200]}", f'{{"{names[-1]}": …}}')


def _utf8(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise Unfit(ascii(name), "a text", "half of a surrogate pair is none") from None


def _name_of(type_: AvroType) -> str:
    if isinstance(type_, list):
        return " or ".join(map(branch_name, type_))[:200]
    return str(type_.get("logicalType", branch_name(type_)) if isinstance(type_, dict) else type_)
