"""What an LMDB index keeps of the log in addition to entries: producers, verdicts, results of updates.

It is the same in every version of a table, because conditions and retries are decided once, by the version that is
live; so another version takes these rows over as they are.

The functions read inside a transaction of the caller, and raise what LMDB raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from log_tier.model.identifiers import Offset
from serving_tier.fold.producers import ProducerState
from serving_tier.fold.verdicts import Judgement, Outcome, Verdict, outcomes_between
from serving_tier.index.lmdb.environment import Databases
from serving_tier.index.lmdb.format import (
    DEFINITION,
    LIVE,
    STATE,
    VOID,
    State,
    unpack_judgement,
    unpack_producer,
)
from serving_tier.index.number_keys import number_key, number_of

__all__ = ["judgements_between", "outcomes_known", "producer_known", "take_over"]

_DATABASES: Final = ("producers", "producer_order", "verdicts", "results")
_ROWS_OF_META: Final = (VOID, LIVE, DEFINITION, STATE)


def producer_known(txn: Any, databases: Databases, producer_id: int) -> ProducerState | None:
    """The last batch of a producer that took effect. One lookup."""
    row = txn.get(number_key(producer_id), db=databases.producers)
    return None if row is None else unpack_producer(row)


def judgements_between(txn: Any, databases: Databases, first: int, last: int) -> list[Judgement]:
    """The judgements about the offsets `first` to `last`; a run of duplicates may begin before them.

    Two lookups, and the rows found.
    """
    cursor = txn.cursor(databases.verdicts)
    rows = [unpack_judgement(number_key(number), row) for number, row in _numbered(cursor, first, last)]
    placed = cursor.prev() if cursor.set_range(number_key(first)) else cursor.last()
    if placed:
        before = unpack_judgement(*cursor.item())
        if before.verdict is Verdict.DUPLICATE and before.offset + before.span > first:
            rows.insert(0, before)
    return rows


def outcomes_known(txn: Any, databases: Databases, first: Offset, last: Offset) -> dict[Offset, Outcome]:
    """What is known about the offsets `first` to `last`, inclusive."""
    state = State.unpack(txn.get(STATE, db=databases.meta))
    return outcomes_between(
        first,
        last,
        verdicts_from=state.verdicts_from,
        judgements=lambda first, last: judgements_between(txn, databases, first, last),
        results=lambda first, last: _numbered(txn.cursor(databases.results), first, last),
    )


def take_over(txn: Any, databases: Databases, source: Any, theirs: Databases) -> None:
    """Replace what is known in the write transaction `txn` by what the read transaction `source` of another index
    knows, its applied offset, live version and definition included, its tally not. About 1 µs a row.
    """
    for name in _DATABASES:
        mine = getattr(databases, name)
        txn.drop(mine, delete=False)
        txn.cursor(mine).putmulti(source.cursor(getattr(theirs, name)).iternext(), append=True)
    for row in _ROWS_OF_META:
        found = source.get(row, db=theirs.meta)
        if found is not None:
            txn.put(row, found, db=databases.meta)


def _numbered(cursor: Any, first: int, last: int) -> Iterator[tuple[int, bytes]]:
    """The rows under the numbers `first` to `last`."""
    if not cursor.set_range(number_key(first)):
        return
    for key, row in cursor.iternext():
        if number_of(key) > last:
            return
        yield number_of(key), row
