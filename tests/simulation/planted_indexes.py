"""Bugs to plant in ordered indexes of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from serving_tier.fold import fold, index_changes
from serving_tier.index.lmdb import fold_transaction, lmdb_index
from serving_tier.replica import standby
from simulation.planted import Patches

__all__ = ["PLANTED_IN_BUILDS", "PLANTED_IN_INDEXES"]


def _entries_stay() -> Patches:
    changes = index_changes.index_changes

    def come_only(*what: Any) -> dict[bytes, bytes | None]:
        return {entry: stored for entry, stored in changes(*what).items() if stored is not None}

    return [(fold, "index_changes", come_only)]


def _entries_stay_when_rows_leave() -> Patches:
    """A row that an index has no more, by its conditions, keeps its entry there."""
    changes = index_changes.index_changes

    def without_leaving(entries: Any, stored: Any, rows: Any) -> dict[bytes, bytes | None]:
        found = changes(entries, stored, rows)
        for key, after in entries.items():
            before = stored(key)
            if before is None or after is None:
                continue
            old, new = (index_changes.all_of_stored(key, each, rows) for each in (before, after))
            for was, there in zip(old, new, strict=True):
                if was and not there:
                    found.pop(was, None)
        return found

    return [(fold, "index_changes", without_leaving)]


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


def _service_without_the_rest() -> Patches:
    """An index counts as whole at the barrier that puts it into service, and nobody builds it."""

    def forget(builds: Any, txn: Any, databases: Any, definition: Any) -> Any:
        for number in builds.owed(definition):
            builds = builds.at(number, None)
        fold_transaction.put_builds(txn, databases, builds)
        return builds

    async def nothing(self: Any, rows_max: int) -> bool:
        return False

    return [
        (lmdb_index, "tend_entries", forget),
        (lmdb_index.LmdbIndex, "owes", lambda self, batches: False),
        (standby.StandbyVersions, "build_some", nothing),
    ]


def _built_but_for_one() -> Patches:
    build = fold_transaction.build_entries

    def but_one(txn: Any, databases: Any, definition: Any, number: int, behind: bytes, rows_max: int) -> Any:
        last = build(txn, databases, definition, number, behind, rows_max)
        if not behind:
            cursor = txn.cursor(databases.ordered)
            if cursor.set_range(number.to_bytes(2)) and cursor.key().startswith(number.to_bytes(2)):
                cursor.delete()
        return last

    return [(lmdb_index, "build_entries", but_one)]


PLANTED_IN_INDEXES: Final[dict[str, Callable[[], Patches]]] = {
    "an entry of an index is not removed": _entries_stay,
    "an entry stays when its row does not meet the index's conditions any more": _entries_stay_when_rows_leave,
    "an index is a transaction late": _a_transaction_late,
}

PLANTED_IN_BUILDS: Final[dict[str, Callable[[], Patches]]] = {
    "an index is built but for a row": _built_but_for_one,
    "an index is put into service before it is whole": _service_without_the_rest,
}
