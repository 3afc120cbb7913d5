"""The calls on one deployment, by every client that was given the address of one of its servers, or is inside of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from duramen.client.transport.observer import ClientWays
from duramen.testing.recording.recorded_ways import RecordedConnection, RecordedReads, RecordedWrites
from duramen.testing.recording.table_recorder import TableRecorder
from log_tier.model.identifiers import TableId

__all__ = ["CallRecorder"]


class CallRecorder:
    """A `ClientObserver`. It has every call by its table."""

    def __init__(self, names: Collection[str] | None, clock: Callable[[], int]) -> None:
        """`names`: of its processes; None: clients that are inside of it have no address. `clock`: nanoseconds."""
        self._names = names
        self._clock = clock
        self._clients = 0
        self.tables: dict[TableId, TableRecorder] = {}

    def table(self, table_id: TableId) -> TableRecorder:
        """The recorder of a table."""
        found = self.tables.get(table_id)
        if found is None:
            found = self.tables[table_id] = TableRecorder(table_id, self._clock)
        return found

    def observe(self, targets: Sequence[str], ways: ClientWays) -> ClientWays:
        if self._names is None:
            if targets:
                return ways
        elif not any(target.rpartition(":")[0] in self._names for target in targets):
            return ways
        client, self._clients = self._clients, self._clients + 1
        return ClientWays(
            RecordedConnection(ways.connection, client, self.table),
            RecordedReads(ways.reads, client, self.table),
            RecordedWrites(ways.writes, client, self.table),
        )
