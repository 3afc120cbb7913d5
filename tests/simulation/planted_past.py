"""Bugs to plant in the past of tables that keep a history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from duramen.client.past import befores
from log_tier.model.identifiers import Offset
from router.data.requests import ScanWalk
from serving_tier.index.lmdb import fold_transaction, lmdb_reads
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.past.past_writing import write_past
from serving_tier.index.past_pages import past_page
from simulation.planted import Patches

__all__ = ["PAST_IN_DATABASE", "PLANTED_IN_PAST"]


def _a_transaction_late() -> Patches:
    waiting: dict[Any, Any] = {}

    def late(effects: Any, txn: Any, databases: Any, **how: Any) -> None:
        mine = effects.past
        effects.past = waiting.pop(databases.history, ())
        waiting[databases.history] = mine
        write_past(effects, txn, databases, **how)

    return [(fold_transaction, "write_past", late)]


def _lost_at_a_swap() -> Patches:
    """A version that follows as a standby writes no past of its own."""
    fold_in = LmdbIndex.fold_in

    def without(self: Any, batches: Any, *, decided: Any = None, carried: Any = None) -> Any:
        if carried is None:
            return fold_in(self, batches, decided=decided, carried=carried)
        fold = self._fold

        def folded(*args: Any) -> Any:
            effects = fold(*args)
            effects.past = ()
            return effects

        self._fold = folded
        try:
            return fold_in(self, batches, decided=decided, carried=carried)
        finally:
            del self._fold

    return [(LmdbIndex, "fold_in", without)]


def _later_page_of_now() -> Patches:
    took = ScanWalk.took

    def forgetting(self: Any, page: Any) -> None:
        took(self, page)
        if self._next.past is not None and self._next.past.compared is None:
            self._next = replace(self._next, past=None)

    return [(ScanWalk, "took", forgetting)]


def _put_again_is_missed() -> Patches:
    """A comparison takes a key that was deleted and put again for one that nobody has changed."""

    def without(keys: Any, state: Any, compared: Any, **how: Any) -> Any:
        if compared is None:
            return past_page(keys, state, compared, **how)
        first, last = sorted((state.at, compared.at))
        newest = max((state, compared), key=lambda each: each.at)

        def was_deleted(key: bytes) -> bool:
            return any(each.stored is None and first < each.offset <= last for each in newest.versions(key))

        kept = (key for key in keys if not (state.stored(key) and compared.stored(key) and was_deleted(key)))
        return past_page(kept, state, compared, **how)

    return [(lmdb_reads, "past_page", without)]


def _what_it_left() -> Patches:
    """A change comes with what it has left, in place of what it replaced."""
    part_of = befores._part

    def later(change: Any) -> Any:
        return part_of(replace(change, offset=Offset(change.offset + 1)))

    return [(befores, "_part", later)]


PAST_IN_DATABASE: Final[dict[str, Callable[[], Patches]]] = {
    "a history entry is a transaction late": _a_transaction_late,
    "a later page of the past is read as of now": _later_page_of_now,
    "a change is shown with what it left": _what_it_left,
    "a comparison misses what was deleted and put again": _put_again_is_missed,
}

PLANTED_IN_PAST: Final[dict[str, Callable[[], Patches]]] = {
    "a history entry is lost at a version swap": _lost_at_a_swap,
}
