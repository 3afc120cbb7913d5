"""The acknowledged writes of one client, counted for a comparison with the log (`log_tier.tally.acknowledged`).

A gatherer notes each batch that has its place in the log by one `append`, which costs its callers nothing to speak of;
some hundreds are counted at once.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from log_tier.model.identifiers import PartitionId
from log_tier.tally.acknowledged import Acknowledgement, AckRun, joined_runs

__all__ = ["NOTED_MAX", "PLACES_MAX", "RUNS_KEPT", "Acknowledged"]

NOTED_MAX: Final = 256
"""Batches that are noted before they are counted: some 0.5 ms of counting."""

PLACES_MAX: Final = 4096
"""Producers in partitions: 8 MiB. A client has a producer, and a blocking one another for each connection."""

RUNS_KEPT: Final = 10
"""Of each producer in each partition: ten minutes of writes, some 2 KiB. Less, where some were not acknowledged."""


class Acknowledged:
    """What was acknowledged. Any thread may append to `noted`; who finds it longer than `NOTED_MAX` calls `count`."""

    def __init__(self) -> None:
        self.noted: deque[Acknowledgement] = deque()
        """What is not counted yet, of each producer in its order."""
        self._runs: dict[tuple[PartitionId, int], deque[AckRun]] = {}
        self._lock = threading.Lock()

    def count(self) -> None:
        """Count what was noted. Some 2 µs a batch."""
        with self._lock:
            while self.noted:
                batch = self.noted.popleft()
                place = batch[0], int.from_bytes(batch[1][40:48], "little")
                runs = self._runs.get(place)
                if runs is None:
                    if len(self._runs) >= PLACES_MAX:
                        del self._runs[next(iter(self._runs))]  # the one that came first
                    runs = self._runs[place] = deque(maxlen=RUNS_KEPT)
                run, goes_on = joined_runs(runs[-1] if runs else None, batch)
                if goes_on:
                    runs[-1] = run
                else:
                    runs.append(run)

    def runs(self) -> list[AckRun]:
        """All that was acknowledged lately, by partition and producer in the order of the sequences."""
        self.count()
        with self._lock:
            return [run for runs in self._runs.values() for run in runs]

    def forget(self) -> None:
        """In a forked process: what was acknowledged is the parent's."""
        self.noted.clear()
        self._runs = {}
        self._lock = threading.Lock()
