"""Bugs to plant where the histories of servers are kept: rows that are lost, shared, written by others, or not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from duramen.server.console.history import ServerHistory
from duramen.server.kept import history_table
from duramen.server.kept.history_table import HistoryTable
from duramen.server.kept.row_format import row_key
from log_tier.model.errors import DuramenError
from router.data import local_data
from router.routing import writes
from simulation.planted import Patches

__all__ = ["PLANTED_IN_HISTORY"]


def _a_failed_append_is_forgotten() -> Patches:
    inner = HistoryTable._write

    async def write(self: HistoryTable) -> None:
        rows = self._history.week.after(self._written_s)
        try:
            await inner(self)
        except (DuramenError, TimeoutError):
            if rows:
                self._written_s = max(self._written_s, rows[-1].at_s)
            raise

    return [(HistoryTable, "_write", write)]


def _servers_share_keys() -> Patches:
    return [(history_table, "row_key", lambda series, time_ms: row_key("node/n1", time_ms // 1000 * 1000))]


def _anybody_writes() -> Patches:
    return [(module, "refused_parts", lambda parts, closed, refusals: {}) for module in (local_data, writes)]


def _the_last_rows_are_not_read() -> Patches:
    inner = ServerHistory.restore

    def restore(self: ServerHistory, rows: Iterable[Any]) -> int:
        return inner(self, list(rows)[:-3])

    return [(ServerHistory, "restore", restore)]


PLANTED_IN_HISTORY: Final[dict[str, Callable[[], Patches]]] = {
    "rows of a history whose append failed are not written again": _a_failed_append_is_forgotten,
    "servers write rows of their histories under the same keys": _servers_share_keys,
    "anybody writes rows of a history": _anybody_writes,
    "a server that is started again does not read its last rows": _the_last_rows_are_not_read,
}
