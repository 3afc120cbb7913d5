"""What an index has of a row: the elements of its fields, and behind them the row's key.

An entry is bytes that sort as the fields do; rows that are equal in them sort by key. None comes first. A number that
is none (NaN) comes behind all others, and is no value of a range. -0.0 is 0.0.

A **unique** index sees to it that no two rows of one partition have the same elements of its fields. As in SQL, null is
equal to nothing: a row in which one of the fields is null, or inside a record that is null, has no value that it could
share. Of a partial index the rows are compared that it has. Equal is what has equal elements: -0.0 and 0.0 do, and NaN
and NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from log_tier.rows.avro.avro_types import NamedTypes
from log_tier.rows.avro.plain_readers import Reader, index_at
from log_tier.rows.avro.row_reader import ReaderTree
from log_tier.rows.avro.row_room import UNUSED_ROOM, RowRoom
from log_tier.rows.elements import skip_element
from log_tier.rows.framing import FRAME_BYTES, frame, schema_number
from log_tier.rows.key_readers import KeyReader, key_reader
from log_tier.rows.quick_reader import EntriesReader, paths_of, quick_entries
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import ENTRY_BYTES_MAX, INDEX_NUMBER_BYTES, NAN, EntryForm, FieldPath, TableIndex

__all__ = [
    "IndexEntries",
    "UniqueValues",
    "complete_entries",
    "elements_of",
    "entries_reader",
    "has_null",
    "index_of_value",
]

_NULL: Final = b"\0"

_ELEMENT_BYTES_MORE: Final = 10
"""What an element has besides the bytes of its field: a long of one byte of Avro takes 2, a date of one takes 5, a
microsecond of one takes 9. Each byte of a text may take two."""

_READERS_MAX: Final = 256

Elements = Callable[[bytes, int], list[bytes]]
"""From a value that fits and the place of its frame: the elements at the paths, in their order."""


class IndexEntries:
    """Makes the entries of rows of one definition, all of whose schemas its indexes fit."""

    def __init__(self, indexes: Sequence[TableIndex], schemas: Sequence[NumberedSchema]) -> None:
        self._indexes = tuple(each.form for each in indexes)
        self._names = [each.name for each in indexes]
        self._fields_max = max((len(each.fields) for each in indexes), default=0)
        self._schemas = {each.number: each.schema for each in schemas if each.number}
        self._readers: dict[bytes, EntriesReader] = {}
        """By the frame of a value: of those schemas of which a row has come."""

    def of(self, key: bytes, value: bytes, at: int = 0) -> list[bytes]:
        """The entries of a row, one for each index, each behind its index's number; empty in one whose conditions the
        row does not meet. `value`: one that fits; its frame begins at `at`. Some 1.5 µs for a row of 8 plain fields and
        one index. Raises `KeyError` for a row of another schema, and what a reader raises for one that it cannot read.
        """
        behind = at + FRAME_BYTES
        read = self._readers.get(value[at:behind])
        if read is None:
            number = schema_number(value, at)
            read = self._readers[frame(number, b"")] = entries_reader(self._schemas[number], self._indexes)
        return read(value, behind, key)

    def fit(self, keys: Sequence[bytes], values: Sequence[bytes]) -> bool:
        """Can these rows be in all indexes? 50 ns for a row where all are short. `values`: they fit otherwise."""
        if not keys or self._surely_fits(max(map(len, keys)), max(map(len, values))):
            return True
        return not any(map(self.refusal, keys, values))

    def _surely_fits(self, key_bytes: int, value_bytes: int) -> bool:
        return key_bytes + 2 * value_bytes + self._fields_max * _ELEMENT_BYTES_MORE <= ENTRY_BYTES_MAX

    def refusal(self, key: bytes, value: bytes) -> str | None:
        """Why a row cannot be in all indexes, in one sentence; None: it can. `value`: one that fits otherwise."""
        if self._surely_fits(len(key), len(value)):
            return None
        for name, entry in zip(self._names, self.of(key, value), strict=True):
            size = len(entry) - INDEX_NUMBER_BYTES
            if size > ENTRY_BYTES_MAX:
                return f"its entry in the index {name} has {size} bytes with the key; one has at most {ENTRY_BYTES_MAX}"
        return None


class UniqueValues:
    """Reads the values that rows of one definition have alone. `indexes`: the unique ones, at least one."""

    def __init__(self, indexes: Sequence[TableIndex], schemas: Sequence[NumberedSchema]) -> None:
        assert indexes, "without a unique index nothing is to be read"
        self._rows = IndexEntries(indexes, schemas)

    def of(self, key: bytes, value: bytes, at: int = 0) -> list[bytes]:
        """The row's values, each behind the number of its index; none of an index that does not have the row, or where
        a field is null. `value`: one that fits; its frame begins at `at`. Entries of the rows that have one begin with
        it. Some 2 µs for a row of 8 plain fields and one index. Raises as `IndexEntries.of`.
        """
        size = len(key)
        found = [entry[: len(entry) - size] for entry in self._rows.of(key, value, at) if entry]
        return [value for value in found if not has_null(value)]


def index_of_value(value: bytes) -> int:
    """The number of the index that a value is of."""
    return int.from_bytes(value[:INDEX_NUMBER_BYTES])


def has_null(value: bytes) -> bool:
    """Is one of the fields of a value, as entries have them, null? O(its bytes)."""
    at, end = INDEX_NUMBER_BYTES, len(value)
    while at < end:
        if value[at : at + 1] == _NULL:
            return True
        at = skip_element(value, at)
    return False


def elements_of(schemas: Sequence[NumberedSchema], paths: tuple[FieldPath, ...]) -> Elements:
    """A reader of the elements at paths that each of the schemas has. It raises `KeyError` for a row of another one."""
    known = {each.number: each.schema for each in schemas if each.number}
    readers: dict[int, Elements] = {}

    def read(value: bytes, at: int) -> list[bytes]:
        number = schema_number(value, at)
        of_schema = readers.get(number)
        if of_schema is None:
            of_schema = readers[number] = _elements_of(known[number], paths)
        return of_schema(value, at + FRAME_BYTES)

    return read


@lru_cache(maxsize=_READERS_MAX)
def entries_reader(schema: RowSchema, indexes: tuple[EntryForm, ...]) -> EntriesReader:
    """The reader of the entries of a schema's rows in these indexes."""
    return quick_entries(schema, indexes, complete_entries(schema, indexes))


def complete_entries(schema: RowSchema, indexes: tuple[EntryForm, ...]) -> EntriesReader:
    """The same, which reads each row to its end by itself: a quick one may leave any to it."""
    paths = paths_of(indexes)
    place = {path: number for number, path in enumerate(paths)}
    places = [
        (
            form.number,
            [place[path] for path in form.paths],
            [(place[path], start, end) for path, start, end in form.where],
        )
        for form in indexes
    ]
    read = _elements_of(schema, paths)

    def read_entries(value: bytes, at: int, key: bytes) -> list[bytes]:
        elements = read(value, at)
        return [
            number + b"".join([elements[each] for each in of_index]) + key
            if all(start <= elements[each] < end for each, start, end in where)
            else b""
            for number, of_index, where in places
        ]

    return read_entries


@lru_cache(maxsize=_READERS_MAX)
def _elements_of(schema: RowSchema, paths: tuple[FieldPath, ...]) -> Elements:
    tree = ReaderTree(schema.named)
    fields = [{"name": each.name, "type": each.type} for each in schema.fields]
    read_record = _record_reader(fields, dict(zip(paths, range(len(paths)), strict=True)), tree, schema.named)
    count, takes_room = len(paths), tree.takes_room

    def read_elements(value: bytes, at: int) -> list[bytes]:
        elements = [_NULL] * count
        read_record(value, at, len(value), RowRoom() if takes_room else UNUSED_ROOM, elements)
        return elements

    return read_elements


_RecordReader = Callable[[bytes, int, int, RowRoom, list[bytes]], int]


def _record_reader(
    fields: Sequence[Any], wanted: dict[FieldPath, int], tree: ReaderTree, named: NamedTypes
) -> _RecordReader:
    """A reader that puts the elements at the wanted paths where they belong, and passes over the rest. What it returns
    is the place behind the record.
    """
    steps: list[tuple[Reader | None, KeyReader | None, _RecordReader | None, int]] = []
    for field in fields:
        inner = {path[1:]: number for path, number in wanted.items() if path[0] == field["name"]}
        if () in inner:
            assert len(inner) == 1, f"the field {field['name']} is a record and none"
            steps.append((None, key_reader(field["type"], named, NAN), None, inner[()]))
        elif inner:
            steps.append((None, None, _optional_record_reader(field["type"], inner, tree, named), 0))
        elif (read := tree.reader(field["type"])) is not None:
            steps.append((read, None, None, 0))

    def read_record(value: bytes, at: int, end: int, room: RowRoom, elements: list[bytes]) -> int:
        for read, read_key, read_inner, number in steps:
            if read is not None:
                at = read(value, at, end, room)
            elif read_key is not None:
                at, elements[number] = read_key(value, at, end)
            elif read_inner is not None:
                at = read_inner(value, at, end, room, elements)
        return at

    return read_record


def _optional_record_reader(
    type_: Any, wanted: dict[FieldPath, int], tree: ReaderTree, named: NamedTypes
) -> _RecordReader:
    """The reader of a record, or of its union with null, which leaves the elements null."""
    if not isinstance(type_, list):
        record: Any = named.get(type_, type_) if isinstance(type_, str) else type_
        return _record_reader(record["fields"], wanted, tree, named)
    branches = [None if each == "null" else _optional_record_reader(each, wanted, tree, named) for each in type_]

    def read_union(value: bytes, at: int, end: int, room: RowRoom, elements: list[bytes]) -> int:
        index, at = index_at(value, at, len(branches), "types")
        read = branches[index]
        return at if read is None else read(value, at, end, room, elements)

    return read_union
