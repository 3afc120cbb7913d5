"""Comparing a node's replicas, and the watches of them, with the log: in the background, at a bounded cost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from log_tier.concurrency.background import Failed, only_logged, run_forever
from log_tier.concurrency.sized_work import Turn
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.log import Log
from log_tier.tally.compare import (
    Comparison,
    compare,
    cuts,
    difference_text,
    from_offset,
    log_time_at,
    window_of,
)
from log_tier.tally.period import HOUR, PartitionTally
from log_tier.tally.proof import NO_PROOF, ReplicaProof
from serving_tier.node.node import Node
from serving_tier.proof.log_counts import count_log, locate_missing
from serving_tier.replica.replica import Replica

__all__ = ["ROUND_S", "RunningProof"]

logger = logging.getLogger(__name__)

ROUND_S: Final = 60.0
"""The pause between two rounds over all partitions: tallies are of minutes."""

# For each second of a look so many without one: the proof takes a hundredth of the time.
_REST: Final = 99

# A difference of a watch that was found so long ago is not reported any more: the watch may have ended long since.
_WATCH_TROUBLE_S: Final = 3600.0

# To pass over a partition costs as much as so many keys of a read.
_PASS_ITEMS: Final = 1

_REPLICA: Final = "replica"


class _Known(NamedTuple):
    """What is known of a replica."""

    replica: Replica
    """A replica that is built anew is another object, and proven from its beginning."""
    proof: ReplicaProof
    watch_trouble: str = ""
    trouble_s: float = 0.0
    """When it was found, on the event loop's clock."""


class RunningProof:
    """Fills `node.proofs`. `open()` makes one, `close()` ends it. It belongs to the node's event loop."""

    def __init__(self, log: Log, node: Node, round_s: float) -> None:
        self._log, self._node, self._round_s = log, node, round_s
        self._known: dict[PartitionId, _Known] = {}
        self._looking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, log: Log, node: Node, *, round_s: float = ROUND_S, failed: Failed = only_logged
    ) -> RunningProof:
        """Begin. `failed`: see `run_forever`."""
        proof = cls(log, node, round_s)
        proof._task = run_forever(proof._run(), name="the running proof", failed=failed)
        return proof

    async def close(self) -> None:
        """End it. Idempotent."""
        await end_tasks(self._task)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._round_s)
            await self.round()

    async def round(self, *, rest: int = _REST) -> None:
        """Look at each partition that has applied something since the last round, and wait `rest` times as long as
        each look took.
        """
        time = asyncio.get_running_loop().time
        turn = Turn()
        hosted = self._node.hosted()
        for name in [name for name in self._known if name not in hosted]:
            del self._known[name]
            self._node.proofs.pop(name, None)
        for name, replica in list(hosted.items()):
            if turn.is_full(_PASS_ITEMS):
                await turn.end()
            if self._is_due(name, replica):
                began_s = time()
                await self._look(name, replica)
                await asyncio.sleep((time() - began_s) * rest)

    def _is_due(self, name: PartitionId, replica: Replica) -> bool:
        if replica.state not in ("ready", "behind") or replica.index.is_at_rest:
            return False
        known = self._known.get(name)
        return known is None or known.replica is not replica or replica.index.applied > known.proof.proven

    async def _look(self, name: PartitionId, replica: Replica) -> None:
        """Compare what was folded and delivered since the last look."""
        async with self._looking:
            known = self._known.get(name)
            if known is None or known.replica is not replica:
                known = _Known(replica, NO_PROOF)
            try:
                known = await self._proven(name, known)
            except DuramenError as error:
                # The replica was closed, the log does not answer or was trimmed meanwhile: the next round comes to it.
                logger.debug("%s was not compared with its log: %s", replica.name, error.message)
                return
            if self._node.hosted().get(name) is replica:
                self._known[name] = known
                self._node.proofs[name] = self._shown(known)

    def _shown(self, known: _Known) -> ReplicaProof:
        now_s = asyncio.get_running_loop().time()
        if known.proof.differs or not known.watch_trouble or now_s - known.trouble_s > _WATCH_TROUBLE_S:
            return known.proof
        return known.proof._replace(differs=known.watch_trouble)

    async def _proven(self, name: PartitionId, known: _Known) -> _Known:
        replica, proof = known.replica, known.proof
        # Before the replica's, so that they do not reach beyond it.
        given = dict(self._node.deliveries.of(name))

        def look() -> PartitionTally:
            with replica.reading() as index:
                return index.tally()

        tally = await asyncio.to_thread(look)
        if tally.periods:
            tally = window_of(tally, tally.periods[-1].minute - HOUR)
        tally = from_offset(tally, Offset(proof.proven + 1))
        bounds = await self._log.bounds(name)
        lowest = max(bounds.earliest, bounds.compacted)
        start = Offset(max(lowest, tally.since))
        if not tally.periods or bounds.cleaned or start > tally.applied:
            return known._replace(proof=proof._replace(proven=tally.applied))
        tallies = {_REPLICA: tally}
        tallies |= {watch: from_offset(each, tally.since, whole=True) for watch, each in given.items()}
        pieces = await count_log(
            self._log,
            name,
            start,
            cuts(tallies.values()),
            log_time_ms=log_time_at(tallies.values(), start),
            until=tally.applied,
        )
        # What was trimmed or compacted in the meantime may have been read half before and half after.
        again = await self._log.bounds(name)
        lines = compare(pieces, tallies, lowest=Offset(max(again.earliest, again.compacted)))
        proof = proof._replace(proven=tally.applied)
        found = await self._differences(name, lines)
        for counter, text in found.items():
            logger.error("%s: %s", replica.name, text)
            if counter == _REPLICA:
                proof = proof._replace(differs=proof.differs or text)
            else:
                known = known._replace(watch_trouble=text, trouble_s=asyncio.get_running_loop().time())
        return known._replace(proof=proof)

    async def _differences(self, name: PartitionId, lines: list[Comparison]) -> Mapping[str, str]:
        """The first difference of each counter, in words."""
        found: dict[str, str] = {}
        for line in lines:
            for counter, count in line.replicas.items():
                if count.verdict != "different" or counter in found:
                    continue
                run = None
                if count.written is not None:
                    run = await locate_missing(self._log, name, count.written, count.counted)
                doing = "folded" if counter == _REPLICA else "delivered"
                text = difference_text(count, run, doing)[2]
                found[counter] = text if counter == _REPLICA else f"{counter}: {text}"
        return found
