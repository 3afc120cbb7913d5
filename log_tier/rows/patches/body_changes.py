"""A row's bytes with some of its fields changed. What is not named is passed over by readers, and copied."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from log_tier.rows.avro.avro_types import AvroType
from log_tier.rows.avro.plain_readers import Reader, fixed_size, index_at, sized_end
from log_tier.rows.avro.row_reader import ReaderTree
from log_tier.rows.avro.row_room import RowRoom
from log_tier.rows.avro.varints import long_value, unzigzag
from log_tier.rows.avro.writing import long_bytes
from log_tier.rows.patches.field_paths import ChangeTree, resolved_type
from log_tier.rows.patches.hindrance import Hindrance
from log_tier.rows.patches.leaf_changes import changed_leaf
from log_tier.rows.patches.row_patch import FieldChange, FieldOperation, NotPatched
from log_tier.rows.schema import RowSchema

__all__ = ["changed_body"]

_SCHEMAS_MAX: Final = 256

_OF_NULL: Final = frozenset({FieldOperation.MIN, FieldOperation.MAX, FieldOperation.APPEND})
"""Operations that make their operand of a field that is null."""


def changed_body(schema: RowSchema, body: bytes, tree: ChangeTree, changes: Sequence[FieldChange]) -> bytes:
    """A row, without its framing, with these changes of the schema, which were checked. `tree`: the same by their
    steps. The result has still to be judged: it may have more values than a row can.

    Raises `NotPatched`. O(bytes of both).
    """
    walk = _Walk(_readers(schema), body, changes)
    walk.change(schema.name, tree, 0)
    return walk.joined()


class _SchemaReaders:
    """The readers of the fields of a schema's records, made when they are first needed."""

    def __init__(self, schema: RowSchema) -> None:
        self.named = schema.named
        self.tree = ReaderTree(schema.named)
        self._fields: dict[str, list[Reader | None]] = {}

    def of_record(self, record: Any) -> list[Reader | None]:
        found = self._fields.get(record["name"])
        if found is None:
            found = self._fields[record["name"]] = [self.tree.reader(each["type"]) for each in record["fields"]]
        return found


@lru_cache(maxsize=_SCHEMAS_MAX)
def _readers(schema: RowSchema) -> _SchemaReaders:
    return _SchemaReaders(schema)


class _Walk:
    """One reading of a row. Invariant: what lies before `_copied` is in `_parts`, changed."""

    def __init__(self, readers: _SchemaReaders, data: bytes, changes: Sequence[FieldChange]) -> None:
        self._readers = readers
        self._data = data
        self._changes = changes
        self._parts: list[bytes] = []
        self._copied = 0

    def joined(self) -> bytes:
        return b"".join((*self._parts, self._data[self._copied :]))

    def change(self, type_: AvroType, node: Any, at: int) -> int:
        """Change the value of a type that begins at `at`; where it ends. `node`: the changes in it, or its own."""
        found = resolved_type(type_, self._readers.named)
        if isinstance(node, int):
            return self._own(found, node, at)
        return self._union(found, node, at) if isinstance(found, list) else self._record(found, node, at)

    def _record(self, record: Any, node: ChangeTree, at: int) -> int:
        left = len(node)
        for number, read in enumerate(self._readers.of_record(record)):
            if number in node:
                at = self.change(record["fields"][number]["type"], node[number], at)
                left -= 1
            elif read is not None:
                at = self._end(read, at)
        assert not left, f"{left} changes of {record['name']} were not found"
        return at

    def _union(self, union: list[Any], node: ChangeTree, at: int) -> int:
        ((wanted, inner),) = node.items()
        index, behind = index_at(self._data, at, len(union), "types")
        if index == wanted:
            return self.change(union[wanted], inner, behind)
        is_null = union[index] == "null"
        if is_null and isinstance(inner, int) and self._changes[inner].operation in _OF_NULL:
            self._replace(at, behind, long_bytes(wanted) + self._changes[inner].operand)
            return behind
        raise NotPatched(Hindrance.NULL if is_null else Hindrance.OTHER_TYPE, _first(inner))

    def _own(self, found: Any, number: int, at: int) -> int:
        change = self._changes[number]
        read = self._readers.tree.reader(found)
        end = at if read is None else self._end(read, at)
        if change.operation is FieldOperation.SET:
            new: bytes | None = change.operand
        elif isinstance(found, dict) and found["type"] == "array":
            new = self._longer(found["items"], self._data[at:end], change.operand)
        else:
            new = changed_leaf(change.operation, found, self._data[at:end], change.operand)
        if new is None:
            raise NotPatched(Hindrance.OVERFLOW, number)
        self._replace(at, end, new)
        return end

    def _replace(self, start: int, end: int, new: bytes) -> None:
        self._parts += (self._data[self._copied : start], new)
        self._copied = end

    def _end(self, read: Reader, at: int) -> int:
        return read(self._data, at, len(self._data), RowRoom())

    def _longer(self, items: AvroType, *arrays: bytes) -> bytes:
        """The items of several arrays in one block, since each block counts as a value of the row."""
        size, read = fixed_size(items, self._readers.named), self._readers.tree.reader(items)
        total, parts = 0, []
        for array in arrays:
            at = 0
            while True:
                count, at = _long(array, at)
                if not count:
                    break
                start, end = at, at
                if count < 0:
                    start, end = sized_end(array, at, len(array))
                elif size is not None:
                    end = at + count * size
                else:
                    assert read is not None, "an array has no items without bytes"
                    room = RowRoom()
                    for _ in range(count):
                        end = read(array, end, len(array), room)
                total += abs(count)
                parts.append(array[start:end])
                at = end
        return b"".join((long_bytes(total), *parts, b"\0")) if total else b"\0"


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value > 127:
        value, at = long_value(data, value, at)
    return unzigzag(value), at


def _first(node: Any) -> int:
    """The first change in a part of the tree."""
    while not isinstance(node, int):
        node = next(iter(node.values()))
    return node
