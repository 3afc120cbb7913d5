"""Bugs to plant in ordered indexes of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from serving_tier.fold import fold, index_changes
from serving_tier.index.lmdb import fold_transaction, lmdb_index
from simulation.planted import Patches

__all__ = ["PLANTED_IN_INDEXES"]


def _entries_stay() -> Patches:
    changes = index_changes.index_changes

    def come_only(*what: Any) -> dict[bytes, bytes | None]:
        return {entry: stored for entry, stored in changes(*what).items() if stored is not None}

    return [(fold, "index_changes", come_only)]


def _a_transaction_late() -> Patches:
    carry_out = fold_transaction.carry_out
    waiting: dict[Any, dict[bytes, bytes | None]] = {}

    def late(effects: Any, txn: Any, databases: Any, **how: Any) -> Any:
        if databases.ordered is not None:
            mine = effects.index_changes
            effects.index_changes = waiting.pop(databases.ordered, {})
            waiting[databases.ordered] = mine
        return carry_out(effects, txn, databases, **how)

    return [(lmdb_index, "carry_out", late)]


PLANTED_IN_INDEXES: Final[dict[str, Callable[[], Patches]]] = {
    "an entry of an index is not removed": _entries_stay,
    "an index is a transaction late": _a_transaction_late,
}
