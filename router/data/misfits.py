"""Writes to tables with a definition: who writes something that does not fit hears of it, and nobody else does.

The fold makes such a record void, on every replica alike (`serving_tier.fold.misfits`). A batch may hold records of
many callers, so it is not refused for one of them: it is appended, and asks for its outcomes, of which each caller gets
its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.concurrency.sized_work import Turn, run_sized
from log_tier.model.batch import Columns, decode_batch
from log_tier.model.errors import (
    DuramenError,
    FieldAbsent,
    InvalidKey,
    NumberOverflow,
    Rejected,
    RowRejected,
    UniqueViolation,
)
from log_tier.model.identifiers import TableId
from log_tier.model.record import OPERATION_MASK, Operation
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.definition import TableDefinition, says_form
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rows.patches.row_patcher import patcher_of
from router.data.requests import OutcomesPart, WriteOutcome, WritePart, WriteResult
from serving_tier.fold.misfits import misfit_reason

__all__ = ["all_explained", "asked_where_misfit", "explained", "named"]

# A batch of so many bytes is judged on the event loop: 0.7 ms of rows of 100 bytes. A thread judges a larger one; a
# thread for each costs as much as 30 rows.
_JUDGED_AT_ONCE_BYTES: Final = 32 * 1024
_LISTS_JUDGED_AT_ONCE_BYTES: Final = 2 * 1024
"""Where rows may have arrays or maps: 5 ms, with an item in each byte."""

# To say why a record does not fit costs as much as so many items of `sized_work.py`: its fields are read one by one.
_EXPLAINED_ITEMS: Final = 10

# And so many bytes of its batch, which is decoded, as much as one.
_ITEM_BYTES: Final = 64

# Ids that are remembered, some 100 bytes each.
_PLAIN_MAX: Final = 100_000

_PUT: Final = int(Operation.PUT)

_SILENT: Final = (RowRejected, UniqueViolation, FieldAbsent, NumberOverflow)
"""Verdicts of which the fold remembers less than their writer should hear."""


async def asked_where_misfit(
    parts: Sequence[WritePart], cluster: ClusterMap, plain: set[TableId]
) -> Sequence[WritePart]:
    """The parts as they are to be sent. Those ask for their outcomes that hold something that does not fit their
    table's definition: so its writer hears of it, and who has written into the same batch does not. So do those for a
    table that is newer than this process' map, of which nobody here knows whether it has a definition, and those for
    one with a unique index: whether another row has a value is known where the batch is folded.

    `plain`: tables of bytes, to which those of the map are added: their ids are never given to a table of another kind,
    so callers need not ask here again. O(records) for tables with a definition.
    """
    tables = {table_id: cluster.tables.get(table_id) for table_id in {part.partition.table for part in parts}}
    ours = {table.id for table in tables.values() if table is not None and not says_form(table.definition)}
    if len(plain) + len(ours) > _PLAIN_MAX:
        plain.clear()
    plain |= ours
    if len(ours) == len(tables):
        return parts
    asked: list[WritePart] = []
    turn = Turn() if len(parts) > 1 else None  # a lone part pays for nothing else
    for part in parts:
        partition, batch, outcomes, gathered = part
        if not outcomes and partition.table not in ours:
            table = tables[partition.table]
            definition = None if table is None else table.definition
            fit = definition is not None and definition.judge.unique is None and await _fits(batch, definition)
            if not fit:
                part = WritePart(partition, batch, outcomes=True, gathered=gathered)
        asked.append(part)
        if turn is not None and turn.is_full(1 + min(len(batch), _JUDGED_AT_ONCE_BYTES) // _ITEM_BYTES):
            await turn.end()
    return asked


async def _fits(batch: bytes, definition: TableDefinition) -> bool:
    judging = partial(_fit, batch, definition)
    most = _LISTS_JUDGED_AT_ONCE_BYTES if definition.judge.has_lists else _JUDGED_AT_ONCE_BYTES
    return judging() if len(batch) <= most else await asyncio.to_thread(judging)


def _fit(batch: bytes, definition: TableDefinition) -> bool:
    """Does all that this batch puts fit? What else it holds is decided with its outcomes anyway."""
    try:
        columns = decode_batch(batch).columns
    except DuramenError:
        return True  # the log refuses it, and says why
    attributes = columns.attributes or ()
    return all(each & OPERATION_MASK == _PUT for each in attributes) and definition.judge.fit(
        columns.keys, columns.values
    )


async def explained(
    parts: Sequence[WritePart],
    results: list[WriteResult | DuramenError],
    defined: Mapping[TableId, TableDefinition],
) -> list[WriteResult | DuramenError]:
    """The results, and why the records that their table refused do not fit: the fold remembers that they did not. A
    thread looks at many, or at one in a large batch.
    """
    items = 0
    for part, result in zip(parts, results, strict=True):
        if isinstance(result, WriteResult) and result.outcomes:
            items += _EXPLAINED_ITEMS * len(result.outcomes) + len(part.batch) // _ITEM_BYTES
    if not items:
        return results
    return await run_sized(items + len(parts), partial(all_explained, parts, results, defined))


def all_explained(
    parts: Sequence[WritePart],
    results: list[WriteResult | DuramenError],
    defined: Mapping[TableId, TableDefinition],
) -> list[WriteResult | DuramenError]:
    """`explained`, in the caller's thread."""
    return [
        _explained(part, result, defined[part.partition.table])
        if isinstance(result, WriteResult) and part.partition.table in defined
        else result
        for part, result in zip(parts, results, strict=True)
    ]


def _explained(part: WritePart, result: WriteResult, definition: TableDefinition) -> WriteResult:
    if not any(isinstance(outcome.rejected, _SILENT) for outcome in result.outcomes):
        return result
    columns = decode_batch(part.batch).columns
    outcomes = []
    for outcome in result.outcomes:
        refused = outcome.rejected
        if isinstance(refused, _SILENT):
            failed = int(str(refused.fields["failed"])) - result.base_offset
            at = failed if 0 <= failed < len(columns.keys) else outcome.record
            outcome = outcome._replace(rejected=_with_field(refused, columns, at, definition))
        outcomes.append(outcome)
    return result._replace(outcomes=outcomes)


def _with_field(refused: Rejected, columns: Columns, at: int, definition: TableDefinition) -> Rejected:
    """The verdict on the record at `at`, with what the record itself says of it."""
    key, value = columns.keys[at], columns.values[at]
    if isinstance(refused, RowRejected):
        operation = _PUT if columns.attributes is None else columns.attributes[at] & OPERATION_MASK
        why = misfit_reason(definition, operation, key, value)
        return RowRejected(f"{refused.message}: {why}", **refused.fields)
    if isinstance(refused, UniqueViolation):
        return _with_holder(refused, definition, key)
    change = refused.fields.get("change")
    if change is None:
        return refused
    with suppress(Misfit, IndexError):  # the table has another definition here than where it was folded
        field = patcher_of(definition).field_of(value, int(str(change)))
        fields = {name: each for name, each in refused.fields.items() if name != "change"}
        return type(refused)(f"{refused.message}: {field}", **fields, field=field)
    return refused


def named(
    parts: Sequence[OutcomesPart],
    results: list[WriteResult | DuramenError],
    defined: Mapping[TableId, TableDefinition],
) -> list[WriteResult | DuramenError]:
    """Outcomes that were asked for apart from their write, and the names of what a rejected row conflicts with."""
    return [
        result._replace(outcomes=[_named(each, defined[part.partition.table]) for each in result.outcomes])
        if isinstance(result, WriteResult) and result.outcomes and part.partition.table in defined
        else result
        for part, result in zip(parts, results, strict=True)
    ]


def _named(outcome: WriteOutcome, definition: TableDefinition) -> WriteOutcome:
    refused = outcome.rejected
    if not isinstance(refused, UniqueViolation):
        return outcome
    return outcome._replace(rejected=_with_holder(refused, definition))


def _with_holder(refused: UniqueViolation, definition: TableDefinition, put: bytes = b"") -> UniqueViolation:
    """The verdict, with the index by its name and the row that has the values by its key. `put`: the key of the row
    that cannot have them, where that is known.
    """
    number, key = refused.fields["index"], bytes.fromhex(str(refused.fields["key"]))
    index = next((each for each in definition.indexes if each.number == number), None)
    if index is None:  # the table has another definition here than where it was folded
        return refused
    row = _row_words(definition, key) if key else ""
    fields = {**refused.fields, "index": index.name, "indexed": ",".join(index.fields), "row": row}
    who = f"the row with the key {row}" if row else "another row"
    what = f"{who} has the values of {', '.join(index.fields)}, which the unique index {index.name} allows to one row"
    if put:
        fields["refused"] = _row_words(definition, put)
    found, _, _ = refused.message.rpartition(": ")
    return UniqueViolation(f"{found}: {what}", **fields)


def _row_words(definition: TableDefinition, key: bytes) -> str:
    """A key for people."""
    with suppress(InvalidKey, UnicodeDecodeError):
        return JsonTable(definition).key_text(key).decode()
    return ascii(key)
