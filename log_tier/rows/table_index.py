"""An ordered index of a table of rows: its name, the fields that it sorts by, and which rows it has. And the format
versions of the definitions that have it.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from log_tier.model.errors import InvalidKey, InvalidSchema, UnknownFormat
from log_tier.model.kept_history import KeptHistory
from log_tier.model.record import KEY_BYTES_MAX
from log_tier.rows.avro.avro_types import AvroType, NamedTypes
from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.elements import decode_element
from log_tier.rows.key_fields import KeyField, KeyType, fits_key_field, key_type_of, without_null
from log_tier.rows.schema import RowSchema

__all__ = [
    "ENTRY_BYTES_MAX",
    "INDEXES_MAX",
    "INDEX_FIELDS_MAX",
    "INDEX_NUMBER_BYTES",
    "INDEX_NUMBER_MAX",
    "NAN",
    "OPEN_END",
    "EntryForm",
    "FieldCondition",
    "FieldPath",
    "IndexHistory",
    "NumberedIndex",
    "TableIndex",
    "check_format",
    "condition_between",
    "format_of",
    "indexes_from_listed",
    "listed_indexes",
    "pack_where",
    "unpack_where",
    "where_listed",
]

INDEXES_MAX: Final = 32
"""Of one table. Each write of a row may change an entry in all of them."""

INDEX_FIELDS_MAX: Final = 16
"""Of one index. An entry has at most 509 bytes."""

INDEX_NUMBER_BYTES: Final = 2

INDEX_NUMBER_MAX: Final = (1 << 8 * INDEX_NUMBER_BYTES) - 2
"""Numbers are not used again when an index is dropped. The last one would have no bound behind it."""

ENTRY_BYTES_MAX: Final = KEY_BYTES_MAX - INDEX_NUMBER_BYTES
"""Of an entry: its elements and the row's key. The replica stores the index's number in front of them."""

NAN: Final = b"\x21\xff\xf8" + bytes(6)
"""The element of what is no number, as FoundationDB has it. Keys have none; entries do."""

OPEN_END: Final = b"\xff"
"""Behind all elements."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)

FieldPath = tuple[str, ...]
"""The name of a field; behind it, of a field inside it, and so on."""


class FieldCondition(NamedTuple):
    """The elements that a field may have: `start` <= element < `end`."""

    path: str
    start: bytes
    end: bytes
    is_value: bool
    """It is one value, whose element is `start`."""

    def holds(self, element: bytes) -> bool:
        """Whether a row whose field has this element meets it."""
        return self.start <= element < self.end

    def implies(self, other: FieldCondition) -> bool:
        """Does each row that meets it meet another one, on the same field, too?"""
        return other.start <= self.start and self.end <= other.end


class EntryForm(NamedTuple):
    """What an index has of a row."""

    number: bytes
    """The index's, in front of each entry."""
    paths: tuple[FieldPath, ...]
    where: tuple[tuple[FieldPath, bytes, bytes], ...] = ()
    """It has an entry of rows whose elements at these paths are from the first bytes on, and before the second."""


@dataclass(frozen=True, slots=True)
class TableIndex:
    """One index. Raises `InvalidSchema`, which names the index, for parts that are none."""

    number: int
    """1 to 65,534, of the table. It stands for the index where a replica keeps its entries."""
    name: str
    fields: tuple[str, ...]
    """In the order in which they sort; `origin.city` is the field `city` of the record in the field `origin`."""
    where: tuple[FieldCondition, ...] = ()
    """What a row meets that has an entry, all of it; none: each row has one."""
    unique: bool = False
    """No two rows have the same values of the fields, null aside (`index_entries.py`)."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            _refuse(self, "a name has 1 to 64 letters, digits, _ and -, and begins with a letter or _")
        if type(self.number) is not int or not 1 <= self.number <= INDEX_NUMBER_MAX:
            _refuse(self, f"its number is 1 to {INDEX_NUMBER_MAX}, not {ascii(self.number)[:40]}")
        if not isinstance(self.fields, tuple) or not 1 <= len(self.fields) <= INDEX_FIELDS_MAX:
            _refuse(self, f"it has 1 to {INDEX_FIELDS_MAX} fields")
        for path in self.fields:
            if not isinstance(path, str) or not _PATH.fullmatch(path):
                _refuse(self, f"{ascii(path)[:60]} is no field: names of fields, with dots between them")
            if self.fields.count(path) > 1:
                _refuse(self, f"it has the field {path} twice")
        if type(self.unique) is not bool:
            _refuse(self, f"it is unique or is not, and {ascii(self.unique)[:40]} says neither")
        self._check_where()

    def _check_where(self) -> None:
        if not isinstance(self.where, tuple) or len(self.where) > INDEX_FIELDS_MAX:
            _refuse(self, f"it has at most {INDEX_FIELDS_MAX} conditions")
        for each in self.where:
            if not isinstance(each, FieldCondition) or not isinstance(each.path, str) or not _PATH.fullmatch(each.path):
                _refuse(self, f"{ascii(each)[:60]} is no condition on a field")
            if [other.path for other in self.where].count(each.path) > 1:
                _refuse(self, f"it has two conditions on {each.path}")
            if not isinstance(each.start, bytes) or not isinstance(each.end, bytes) or each.start >= each.end:
                _refuse(self, f"no row meets the condition on {each.path}")
            if not each.start and each.end == OPEN_END:
                _refuse(self, f"each row meets the condition on {each.path}: leave it out")
            if max(len(each.start), len(each.end)) > ENTRY_BYTES_MAX:
                _refuse(self, f"a value of the condition on {each.path} has more than {ENTRY_BYTES_MAX} bytes")

    @property
    def paths(self) -> tuple[FieldPath, ...]:
        """The fields as paths."""
        return tuple(tuple(each.split(".")) for each in self.fields)

    @property
    def form(self) -> EntryForm:
        """What it has of a row."""
        where = tuple((tuple(each.path.split(".")), each.start, each.end) for each in self.where)
        return EntryForm(self.number.to_bytes(INDEX_NUMBER_BYTES), self.paths, where)

    def check(self, schemas: Sequence[RowSchema]) -> None:
        """Raise `InvalidSchema` where rows of one of these schemas have no such entry, or sort otherwise than those of
        another, and where a condition has a value of another type. O(schemas).
        """
        for path in dict.fromkeys((*self.fields, *(each.path for each in self.where))):
            kinds = {_sorts_as(self, path, each) for each in schemas}
            if len(kinds) > 1:
                _refuse(self, f"the field {path} sorts as {' and as '.join(sorted(map(str, kinds)))} in its schemas")
        for condition in self.where if schemas else ():
            kind = key_type_of(self.type_of(condition.path, schemas[-1]), schemas[-1])
            assert kind is not None, f"the field {condition.path} sorts"
            _check_values(self, condition, KeyField("value", kind, optional=True))

    def type_of(self, path: str, schema: RowSchema) -> AvroType:
        """Avro's type of one of the fields in a schema that `check` accepts, null aside."""
        return without_null(_type_at(self, path, schema)[0])[0]


class NumberedIndex(Protocol):
    """An index of any kind."""

    @property
    def number(self) -> int: ...


@dataclass(frozen=True, slots=True)
class IndexHistory:
    """How the indexes of a table became what they are. The default: they came with the table."""

    changes: int = 0
    """How many of its definitions changed the indexes; each other one has one schema more than that before it."""
    first: tuple[TableIndex, ...] = ()
    """With which it began; where `changes` is 0 that is not said here."""
    last: int = 0
    """The highest number that one of them had: no later one gets it."""
    building: tuple[int, ...] = ()
    """The numbers of those that are not in service: the rows of before them are still going in."""

    @classmethod
    def from_listed(
        cls, changes: int = 0, first: Sequence[Sequence[Any]] = (), last: int = 0, building: Sequence[int] = ()
    ) -> IndexHistory:
        """Read what a document has of it. Raises as `indexes_from_listed`."""
        return cls(changes, indexes_from_listed(first), last, tuple(building))

    def refusal(self, number: int, indexes: Sequence[NumberedIndex]) -> str:
        """Why it is none of a table's definition `number` with these indexes; empty: it is one."""
        if type(self.changes) is not int or not 0 <= self.changes < number:
            return f"definition {number} cannot have changed them {ascii(self.changes)[:40]} times"
        if not self.changes:
            return "" if self == IndexHistory() else "they were not changed, and have a history"
        there = [each.number for each in indexes]
        if not all(isinstance(each, TableIndex) for each in self.first):
            return "those of the first definition are none"
        if type(self.last) is not int or self.last < max([*there, *(each.number for each in self.first)], default=0):
            return f"their highest number is not {ascii(self.last)[:40]}"
        if not set(self.building) <= set(there) or len(set(self.building)) < len(self.building):
            return f"not all of {list(self.building)} are there"
        return ""


def type_at(path: FieldPath, schema: RowSchema) -> tuple[AvroType, str] | str:
    """The type of what a path leads to, or why it leads nowhere, as a clause about the field."""
    found = schema.field_of(path[0])
    if found is None:
        return f"the schema {schema.name} has no field {path[0]}"
    type_ = found.type
    for depth, name in enumerate(path[1:], 1):
        record = _record(type_, schema.named)
        if record is None:
            return f"the field {'.'.join(path[:depth])} is no record"
        inner = next((each for each in record["fields"] if each["name"] == name), None)
        if inner is None:
            return f"the record {'.'.join(path[:depth])} has no field {name}"
        type_ = inner["type"]
    return type_, ".".join(path)


def _type_at(index: TableIndex, path: str, schema: RowSchema) -> tuple[AvroType, str]:
    found = type_at(tuple(path.split(".")), schema)
    if isinstance(found, str):
        _refuse(index, found)
    return found


def _record(type_: AvroType, named: NamedTypes) -> Mapping[str, Any] | None:
    """The record that a field holds, or may hold."""
    plain = without_null(type_)[0]
    found: Any = named.get(plain, plain) if isinstance(plain, str) else plain
    return found if isinstance(found, dict) and found["type"] == "record" else None


def _sorts_as(index: TableIndex, path: str, schema: RowSchema) -> KeyType | str:
    plain = without_null(_type_at(index, path, schema)[0])[0]
    kind = key_type_of(plain, schema)
    if kind is None:
        shown = plain.get("logicalType", plain["type"]) if isinstance(plain, dict) else plain
        _refuse(index, f"no index sorts by {path}, which is {str(shown)[:60]}: use a text, a number or a time")
    return "datetime without a time zone" if (logical_of(plain) or "").startswith("local-") else kind


def _check_values(index: TableIndex, condition: FieldCondition, field: KeyField) -> None:
    """Raise `InvalidSchema` where a condition is not made of elements of its field."""
    ends = () if condition.is_value or condition.end in (NAN, OPEN_END) else (condition.end,)
    for element in (condition.start, *ends):
        if element == NAN and field.type == "float" and condition.is_value:
            continue
        if not element and not condition.is_value:
            continue
        try:
            value, end = decode_element(element, 0)
        except InvalidKey as error:
            _refuse(index, f"the condition on {condition.path}: {error.message}")
        if end != len(element) or not fits_key_field(field, value):
            _refuse(index, f"the condition on {condition.path}: {ascii(value)[:60]} is no {field.type}")


def condition_between(path: str, start: bytes, end: bytes) -> FieldCondition:
    """The condition of a range of elements: no element begins with another one, so `start` and a zero is the end of
    one value alone.
    """
    return FieldCondition(path, start, end, is_value=end == start + b"\0")


def where_listed(where: Sequence[FieldCondition]) -> list[list[str]]:
    """Conditions as values of JSON."""
    return [[each.path, each.start.hex(), each.end.hex()] for each in where]


def _where_from_listed(listed: Sequence[Sequence[str]]) -> tuple[FieldCondition, ...]:
    return tuple(condition_between(path, bytes.fromhex(start), bytes.fromhex(end)) for path, start, end in listed)


def listed_indexes(indexes: Sequence[TableIndex]) -> list[list[Any]]:
    """Indexes as values of JSON."""
    return [
        [
            each.number,
            each.name,
            list(each.fields),
            *([where_listed(each.where)] if each.where or each.unique else ()),
            *([True] if each.unique else ()),
        ]
        for each in indexes
    ]


def indexes_from_listed(listed: Sequence[Sequence[Any]]) -> tuple[TableIndex, ...]:
    """Read them. Raises `InvalidSchema`, `ValueError`, `TypeError`."""
    return tuple(itertools.starmap(_index_from_listed, listed))


def _index_from_listed(
    number: int, name: str, fields: Sequence[str], where: Sequence[Sequence[str]] = (), unique: bool = False
) -> TableIndex:
    return TableIndex(number, name, tuple(fields), _where_from_listed(where), unique)


def pack_where(where: Sequence[FieldCondition]) -> str:
    """Conditions as a text; empty: there are none."""
    return json.dumps(where_listed(where), separators=(",", ":")) if where else ""


def unpack_where(text: str) -> tuple[FieldCondition, ...]:
    """Read it. Raises `InvalidSchema`."""
    try:
        return _where_from_listed(json.loads(text)) if text else ()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidSchema(
            f"an index's conditions cannot be read: {error!r}", field="where", reason=repr(error)
        ) from None


def _refuse(index: TableIndex, why: str) -> NoReturn:
    name = index.name if isinstance(index.name, str) and len(index.name) <= 64 else ascii(index.name)[:64]
    raise InvalidSchema(f"the index {name}: {why}", field=name, reason=why)


_FORMAT_VERSION: Final = 1
_OF_INDEXES: Final = 2
_OF_HISTORY: Final = 3
"""Of one whose indexes are not those with which the table began."""
_OF_WHERE: Final = 4
"""Of one that has, or began with, an index of some rows only."""
_OF_KEPT: Final = 5
"""Of one whose table keeps what its keys had before."""
_OF_UNIQUE: Final = 6
"""Of one that has, or began with, an index whose values one row has alone. It may keep what keys had before."""
_OF_TEXTS: Final = 7
"""Of one that has a text index. It may have unique indexes, and keep what keys had before."""

_FIELDS: Final = frozenset({"v", "number", "key", "value", "schemas", "partition_by"})
_FIELDS_OF: Final = {
    _FORMAT_VERSION: _FIELDS,
    _OF_INDEXES: _FIELDS | {"indexes"},
    _OF_HISTORY: _FIELDS | {"indexes", "index_history"},
    _OF_WHERE: _FIELDS | {"indexes", "index_history"},
    _OF_KEPT: _FIELDS | {"indexes", "index_history", "keeps"},
    _OF_UNIQUE: _FIELDS | {"indexes", "index_history", "keeps"},
    _OF_TEXTS: _FIELDS | {"indexes", "index_history", "keeps", "texts"},
}


def format_of(
    indexes: Sequence[TableIndex], history: IndexHistory, keeps: KeptHistory | None, texts: Sequence[object]
) -> int:
    """The version in which a definition is written."""
    if texts:
        return _OF_TEXTS
    known = (*indexes, *history.first)
    if any(each.unique for each in known):
        return _OF_UNIQUE
    if keeps is not None:
        return _OF_KEPT
    if any(each.where for each in known):
        return _OF_WHERE
    if history.changes:
        return _OF_HISTORY
    return _OF_INDEXES if indexes else _FORMAT_VERSION


def check_format(document: Mapping[str, Any]) -> None:
    """Raise `UnknownFormat` for a newer version, and for a field that the version does not have: the fold must not pass
    over it. `KeyError`, `TypeError` for a document that does not say what its version does.
    """
    version = document["v"]
    unknown = sorted(document.keys() - _FIELDS_OF.get(version, _FIELDS))
    if version == _OF_KEPT:
        document["keeps"]
    if version not in _FIELDS_OF or unknown:
        raise UnknownFormat(
            f"the table's definition has format {version}{' with ' if unknown else ''}{', '.join(unknown)}, "
            f"this process reads {_FORMAT_VERSION} to {_OF_TEXTS}: update it"
        )
