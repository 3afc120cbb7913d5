"""Scans and comparisons of a table's past, by a client and in small pages, and what changes replaced: they are what a
fold of the log has."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

from duramen.client.model.results import Before, Change
from duramen.client.model.scan_range import ScanRange
from duramen.client.past.befores import with_befores
from duramen.client.past.differences import difference_pages
from duramen.client.past.past_scans import past_request, walked_past
from duramen.client.table import Table
from log_tier.model.errors import HistoryGone
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.record import Operation
from log_tier.model.tokens import Token
from router.data.past.asked_past import AskedPast
from serving_tier.index.index import PastPoint
from serving_tier.index.memory_index import MemoryIndex
from simulation.book import Broken
from simulation.row_calls import RowCaller, RowWorld

__all__ = ["check_past_scans", "write_again"]

_STATES: Final = 12
_PAGE: Final = 2
_CHANGES: Final = 12
_TIMEOUT_S: Final = 30.0
_ALL: Final = ScanRange(b"", None, False, None)

Folds = Mapping[Partition, MemoryIndex]
Values = dict[bytes, bytes]


async def write_again(table: Table, caller: RowCaller) -> None:
    """Delete every row, and write some again: a comparison with what was before has keys of each kind."""
    for key in [key async for key, _ in table.scan(level="strong")]:
        await table.delete(key)
    await caller.write_each()


async def check_past_scans(world: RowWorld, table: Table, folds: Folds) -> None:
    """At offsets drawn for each partition, a scan shows what the partitions' folds had there, and a comparison of two
    such states where they differ; or both are gone, as they are there. Raises `Broken`.
    """
    if any(each.definition is None or each.definition.keeps is None for each in folds.values()):
        return
    chance = random.Random(f"past scans {[each.applied for each in folds.values()]}")
    states = [{part: _drawn(chance, int(fold.applied)) for part, fold in folds.items()} for _ in range(_STATES)]
    found = [await _scanned(table, state) for state in states]
    for state, shown in zip(states, found, strict=True):
        wanted = _folded(folds, state)
        if shown != wanted:
            raise Broken("past", f"a scan of {table.name} at {state} shows {shown}, a fold of its log {wanted}")
    newest = {part: fold.applied for part, fold in folds.items()}
    for state in states:
        before, after = _folded(folds, state), _folded(folds, newest)
        differing = await _differing(table, state, newest)
        wanted_keys = None if before is None or after is None else _differences(before, after)
        if differing != wanted_keys:
            what = f"{table.name} at {state} and {newest} differs in {differing}"
            raise Broken("past", f"{what}, two folds of its log in {wanted_keys}")
    await _check_befores(table, folds, chance)
    world.story.met["rows: past scanned"] += 1


async def _check_befores(table: Table, folds: Folds, chance: random.Random) -> None:
    """What a watch is given with changes, at offsets drawn for each partition, is what folds had until then."""
    ref = table.lookup.ref or await table.lookup.resolve()
    for part, fold in folds.items():
        keys = [*fold.past_keys(), b"none"]
        drawn = [(chance.choice(keys), _drawn(chance, int(fold.applied))) for _ in range(_CHANGES)]
        changes = [Change(ref.id, part, at, 0, Operation.DELETE, key, None, {part: at}) for key, at in drawn if at >= 0]
        async with aclosing(with_befores(table.lookup, _one_run(changes), _TIMEOUT_S, keeps_history=True)) as runs:
            found = [each async for run in runs for each in run]
        for change, before in found:
            wanted = _had_until(fold, change)
            if before != wanted:
                what = f"the change of {change.key!r} at {change.offset} of {table.name}/{part}"
                raise Broken("past", f"{what} is shown with {before}, a fold of its log has {wanted}")


async def _one_run(changes: list[Change]) -> AsyncGenerator[list[Change], None]:
    yield changes


def _had_until(fold: MemoryIndex, change: Change) -> Before:
    try:
        (value,) = fold.get_past([change.key], PastPoint(Offset(change.offset - 1))).values
    except HistoryGone:
        return Before(None, False)
    return Before(value, True)


def _drawn(chance: random.Random, last: int) -> Offset:
    return Offset(
        chance.randrange(max(-1, last - 20), last + 1) if chance.random() < 0.7 else chance.randrange(-1, last + 1)
    )


async def _scanned(table: Table, state: Mapping[Partition, Offset]) -> Values | None:
    """What a client is shown; None: it is gone."""
    ref = table.lookup.ref or await table.lookup.resolve()
    deadline = table.lookup.context.deadline(_TIMEOUT_S)
    shown: Values = {}
    request = past_request(AskedPast(ref, state), _ALL, _PAGE)
    try:
        async with aclosing(walked_past(table.lookup, request, None, deadline, _TIMEOUT_S)) as pages:
            async for page in pages:
                shown.update(zip(page.keys, page.values, strict=True))
    except HistoryGone:
        return None
    return shown


async def _differing(
    table: Table, before: Mapping[Partition, Offset], after: Mapping[Partition, Offset]
) -> dict[bytes, tuple[bytes | None, bytes | None]] | None:
    ref = table.lookup.ref or await table.lookup.resolve()
    shown: dict[bytes, tuple[bytes | None, bytes | None]] = {}
    tokens = Token({ref.id: before}), Token({ref.id: after})
    try:
        async with aclosing(difference_pages(table.lookup, _ALL, *tokens, _TIMEOUT_S)) as pages:
            async for page in pages:
                shown.update({each.key: (each.before, each.after) for each in page})
    except HistoryGone:
        return None
    return shown


def _folded(folds: Folds, state: Mapping[Partition, Offset]) -> Values | None:
    """What folds had at these offsets, key by key; None: of one of them it is not kept."""
    had: dict[bytes, Any] = {}
    for part, fold in folds.items():
        for key in [*fold.past_keys(), b"none"]:
            try:
                (had[key],) = fold.get_past([key], PastPoint(state[part])).values
            except HistoryGone:
                return None
    return {key: value for key, value in had.items() if value is not None}


def _differences(before: Values, after: Values) -> dict[bytes, tuple[bytes | None, bytes | None]]:
    both = {key: (before.get(key), after.get(key)) for key in {*before, *after}}
    return {key: values for key, values in both.items() if values[0] != values[1]}
