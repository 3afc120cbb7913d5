"""What the servers of a simulated cluster tried to write of their histories, and what must be in the table of it.

Each row that a server remembers has a number of its own, which is in the row that is written, so a row says which life
of which server has seen it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from duramen.server.kept.row_format import parse_row
from log_tier.model.batch import decode_batch
from log_tier.model.identifiers import PartitionId
from log_tier.model.log import Appended, Log
from simulation.plan import Plan

__all__ = ["HistoryLedger", "NotedAppends", "WrittenRow", "has_history"]


_CHANCE: Final = 0.12


def has_history(plan: Plan) -> bool:
    """Do the servers of a cluster keep their history? Not where the log is put back: rows go with its end."""
    return plan.copied_s is None and random.Random(f"the kept history {plan.seed}").random() < _CHANCE


class WrittenRow(NamedTuple):
    """A row that a server tried to write."""

    server: str
    key: bytes
    value: bytes
    time_ms: int
    number: int


class HistoryLedger:
    """Knows of every append of every server."""

    def __init__(self) -> None:
        self._tried: defaultdict[bytes, dict[bytes, str]] = defaultdict(dict)
        """By key and value: the server."""
        self.acknowledged: list[WrittenRow] = []
        self.numbers: set[int] = set()
        """Of the rows that were acknowledged."""
        self._seen = 0
        self.of_now: dict[str, Callable[[], set[int]]] = {}
        """Of the servers that live, by name: the numbers of what this life has seen in steps that are over."""

    def next_number(self) -> int:
        """For an observation of a server; never given twice."""
        self._seen += 1
        return self._seen

    def tried(self, server: str, batch: bytes) -> list[WrittenRow]:
        """A server appends rows."""
        columns = decode_batch(batch).columns
        rows: list[WrittenRow] = []
        for key, value in zip(columns.keys, columns.values, strict=True):
            self._tried[key][value] = server
            parsed = parse_row(key, value)
            rows.append(WrittenRow(server, key, value, parsed.time_ms, parsed.last[0]))
        return rows

    def wrote(self, rows: Sequence[WrittenRow]) -> None:
        """The append was acknowledged."""
        self.acknowledged += rows
        self.numbers.update(row.number for row in rows)

    def difference(self, found: Mapping[bytes, bytes], acknowledged: Sequence[WrittenRow]) -> str:
        """Where the table, as it was found later, is not what the servers wrote; empty: nowhere."""
        for key, value in found.items():
            if value not in self._tried.get(key, {}):
                return f"{key!r} is there, which no server wrote"
        for row in acknowledged:
            if row.key not in found:
                return f"{row.key!r} is not there, which {row.server} was acknowledged"
            server = self._tried[row.key][found[row.key]]
            if server != row.server:
                return f"{row.key!r} of {row.server} was overwritten by {server}"
        return ""


class NotedAppends:
    """A server's log, whose appends of history are noted."""

    def __init__(self, ledger: HistoryLedger, server: str, log: Log) -> None:
        self._ledger, self._server, self._log = ledger, server, log

    async def append(self, partition: PartitionId, batch: bytes) -> Appended:
        """See `AppendsBatches`."""
        rows = self._ledger.tried(self._server, batch)
        appended = await self._log.append(partition, batch)
        self._ledger.wrote(rows)
        return appended
