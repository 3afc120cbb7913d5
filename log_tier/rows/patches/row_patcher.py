"""The patches of one definition: whether a value is one, and what it makes of a row."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

from log_tier.model.record import VALUE_BYTES_MAX
from log_tier.rows.avro.avro_types import AvroType
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import FRAME_BYTES, frame
from log_tier.rows.patches.body_changes import changed_body
from log_tier.rows.patches.field_paths import (
    ChangeTree,
    change_tree,
    checked_tree,
    operations_of,
    place_at,
    resolved_type,
)
from log_tier.rows.patches.hindrance import Hindrance
from log_tier.rows.patches.resolution import RowResolution, TooLarge, resolution_of
from log_tier.rows.patches.row_patch import FieldChange, FieldOperation, NotPatched, RowPatch, read_patch

__all__ = ["RowPatcher", "patcher_of"]

_PATCHERS_MAX: Final = 256
_REMEMBERED: Final = 64
_REMEMBERED_BYTES: Final = 128 * 1024


class _Checked(NamedTuple):
    """A value that is a patch of the table."""

    patch: RowPatch
    tree: ChangeTree


class RowPatcher:
    """Decides for one definition. Equal on every replica: it depends on its arguments alone, and on no library."""

    def __init__(self, definition: TableDefinition) -> None:
        self._definition = definition
        self._schemas = {each.number: each.schema for each in definition.schemas if each.number}
        self._order = {number: place for place, number in enumerate(self._schemas)}
        self._key_names = (
            frozenset(each.name for each in definition.key) if isinstance(definition.key, tuple) else frozenset()
        )

    def refusal(self, key: bytes, value: bytes) -> str | None:
        """Why this is no patch of the table, in one sentence: which field, and what is wrong. None: it is one."""
        try:
            self._checked(value)
        except Misfit as misfit:
            return f"the field {misfit.place}: {misfit.reason}" if misfit.path else misfit.reason
        return self._definition.judge.key_refusal(key)

    def field_of(self, value: bytes, change: int) -> str:
        """The dotted name of the field that a change of a patch is of. Raises `Misfit` for what is no patch."""
        patch = self._checked(value).patch
        return place_at(self._schemas[patch.schema], patch.changes[change].path).name

    def patched(self, key: bytes, stored: bytes, value: bytes) -> bytes:
        """The row that a patch makes of a stored row, both with their framing; both were judged.

        Raises `NotPatched`. O(bytes of all).
        """
        patch, tree = self._checked(value)
        number = int.from_bytes(stored[1:FRAME_BYTES])
        body = stored[FRAME_BYTES:]
        row, ours = self._schemas[number], self._schemas[patch.schema]
        try:
            if self._order[number] < self._order[patch.schema]:
                resolution = resolution_of(row, ours)
                if not resolution.reads_rows:
                    raise NotPatched(Hindrance.UNREADABLE, -1)
                body, number, row = resolution.body(body), patch.schema, ours
            elif number != patch.schema:
                patch = _moved(patch, resolution_of(ours, row), number)
                tree = change_tree(patch, row)
            new = frame(number, changed_body(row, body, tree, patch.changes))
        except (TooLarge, OverflowError):  # the second: of defaults
            raise NotPatched(Hindrance.TOO_LARGE, -1) from None
        if len(new) > VALUE_BYTES_MAX or self._definition.judge.refusal(key, new) is not None:
            # What was changed was judged field by field, so it is too much for one row.
            raise NotPatched(Hindrance.TOO_LARGE, -1)
        return new

    def _checked(self, value: bytes) -> _Checked:
        if len(value) > _REMEMBERED_BYTES:
            return self._check(value)
        return _checked_lately(self, value)

    def _check(self, value: bytes) -> _Checked:
        if self._definition.value != "row":
            raise Misfit(f"a table of {self._definition.value} has no fields to change")
        patch = read_patch(value)
        schema = self._schemas.get(patch.schema)
        if schema is None:
            raise Misfit(f"the table has no schema {patch.schema}; it has {', '.join(map(str, self._schemas))}")
        return _Checked(patch, checked_tree(schema, self._key_names, patch))


@lru_cache(maxsize=_REMEMBERED)
def _checked_lately(patcher: RowPatcher, value: bytes) -> _Checked:
    return patcher._check(value)


@lru_cache(maxsize=_PATCHERS_MAX)
def patcher_of(definition: TableDefinition) -> RowPatcher:
    """The patcher of a definition. Equal definitions of one process have one."""
    return RowPatcher(definition)


def _moved(patch: RowPatch, resolution: RowResolution, number: int) -> RowPatch:
    """A patch of an older schema as one of the row's. Raises `NotPatched` for a field that the row's does not have."""
    changes = []
    for place, change in enumerate(patch.changes):
        moved = _moved_change(change, resolution)
        if moved is None:
            raise NotPatched(Hindrance.GONE, place)
        changes.append(moved)
    return RowPatch(number, tuple(changes))


def _moved_change(change: FieldChange, resolution: RowResolution) -> FieldChange | None:
    """A change with the path and the operand of the newer schema; None: there is no such field any more."""
    older, newer = resolution.writer, resolution.reader
    written: AvroType = older.name
    read: AvroType = newer.name
    path: list[int] = []
    for step in change.path:
        before = resolved_type(written, older.named)
        if isinstance(before, list):
            written = before[step]
            continue  # which type of the newer one's union it is, is decided by what follows
        read = _into_union(path, written, read, resolution)
        after = resolved_type(read, newer.named)
        field = before["fields"][step]
        slot = _slot_of(before, after, field["name"])
        if slot is None:
            return None
        path.append(slot)
        written, read = field["type"], after["fields"][slot]["type"]
    if change.operation is not FieldOperation.SET:
        read = _into_union(path, written, read, resolution)
        if change.operation not in operations_of(resolved_type(read, newer.named)):
            return None
    if not resolution.reads(read, written):
        return None
    return FieldChange(tuple(path), change.operation, resolution.value(change.operand, written, read))


def _into_union(path: list[int], written: AvroType, read: AvroType, resolution: RowResolution) -> AvroType:
    """The newer type that reads a value: of a union the first one that does."""
    found = resolved_type(read, resolution.reader.named)
    if not isinstance(found, list):
        return read
    place = resolution.first_that_reads(found, written)
    if place is None:
        return read
    path.append(place)
    inner: AvroType = found[place]
    return inner


def _slot_of(older: Any, newer: Any, name: str) -> int | None:
    """The field of the newer record that is read from the older one's field of that name."""
    if not isinstance(newer, dict) or newer["type"] != "record":
        return None
    known = {each["name"] for each in older["fields"]}
    for slot, each in enumerate(newer["fields"]):
        if next((given for given in (each["name"], *each.get("aliases", ())) if given in known), None) == name:
            return slot
    return None
