"""Is every replica's tally the log's? Minute by minute, in numbers that must be equal (`log_tier.tally`).

The replicas say first what they counted; then the log's batches are read again and counted, up to an offset that is not
below any replica's. So a difference is a batch that was lost, or is another one: never a matter of who was asked when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, PartitionId, table_id_to_bytes
from log_tier.model.log import Bounds, Log
from log_tier.tally.compare import Comparison, ReplicaCount, compare, cuts, log_time_at, window_of
from log_tier.tally.period import MINUTE_MS, PartitionTally, Period
from router.admin.answers.log_counts import count_log, locate_missing
from router.admin.planners.cluster_view import Situation
from router.membership.views import Membership
from router.proto import admin_pb2 as pb
from serving_tier.proto.node_pb2 import TallyRequest
from serving_tier.service.tallies import tally_from

__all__ = ["audit_partition"]

# Offsets are looked for in the minutes that differ first. A replica that differs in more is built anew, not studied.
_LOCATED_MAX: Final = 10

_CLEANED: Final = (
    "Kafka compacts the topic, so what was folded may be gone from it; `duramen admin verify` compares the replicas "
    "with each other"
)


async def audit_partition(
    situation: Situation,
    log: Log,
    membership: Membership,
    partition: PartitionId,
    *,
    since_ms: int = 0,
    timeout: float = 120.0,
) -> list[pb.AdminMinute]:
    """Compare what the readable replicas of a partition counted with what the log holds, from the minute of `since_ms`
    on. Reads the log from there once; `timeout`: of one question to a node, in seconds.
    """
    table = situation.cluster.table(partition.table)
    answer = _Answer(table.name, partition)
    nodes = table.readable(partition.partition)
    silent = {node: situation.lost(node) for node in nodes if not situation.is_alive(node)}
    tallies = await _ask(membership, partition, [node for node in nodes if node not in silent], timeout, silent)
    answer.silent = "; ".join(f"{node}: {why}" for node, why in sorted(silent.items()))
    if not tallies:
        return [answer.unverified(answer.silent or "it has no replica that can be read")]
    tallies = {node: window_of(tally, since_ms // MINUTE_MS) for node, tally in tallies.items()}
    try:
        bounds = await log.bounds(partition)
        if bounds.cleaned:
            return [answer.unverified(_CLEANED, verdict="not compared")]
        start = max(_lowest(bounds), min(tally.since for tally in tallies.values()))
        before_ms = log_time_at(tallies.values(), Offset(start))
        pieces = (
            await count_log(log, partition, Offset(start), cuts(tallies.values()), log_time_ms=before_ms)
            if start <= bounds.latest
            else []
        )
        # What was trimmed or compacted in the meantime may have been read half before and half after.
        lowest = max(_lowest(bounds), _lowest(await log.bounds(partition)))
        lines = compare(pieces, tallies, lowest=Offset(lowest))
        places = await _located(log, partition, lines)
    except DuramenError as error:
        return [answer.unverified(error.message)]
    return [answer.of(line, places, lowest) for line in lines if line.minute + line.minutes > since_ms // MINUTE_MS]


def _lowest(bounds: Bounds) -> int:
    return max(bounds.earliest, bounds.compacted)


async def _ask(
    membership: Membership, partition: PartitionId, nodes: list[str], timeout: float, silent: dict[str, str]
) -> dict[str, PartitionTally]:
    """What each node's replica counted; those that do not answer are noted in `silent`."""
    request = TallyRequest(table_id=table_id_to_bytes(partition.table), partition=partition.partition)

    async def one(node: str) -> PartitionTally | None:
        try:
            return tally_from(await membership.tally(node, request, timeout=timeout))
        except DuramenError as error:
            silent[node] = error.message
            return None

    found = await asyncio.gather(*map(one, nodes))
    return {node: tally for node, tally in zip(nodes, found, strict=True) if tally is not None}


async def _located(
    log: Log, partition: PartitionId, lines: list[Comparison]
) -> Mapping[tuple[int, str], tuple[Offset, Offset]]:
    """For each difference, by minute and node, the run of offsets that is missing, where one run explains it."""
    places: dict[tuple[int, str], tuple[Offset, Offset]] = {}
    differing = [
        (line.minute, node, replica)
        for line in lines
        for node, replica in line.replicas.items()
        if replica.verdict == "different" and replica.written is not None
    ]
    for minute, node, replica in differing[:_LOCATED_MAX]:
        assert replica.written is not None, f"{replica} has nothing to be compared with"
        run = await locate_missing(log, partition, replica.written, replica.counted)
        if run is not None:
            places[minute, node] = run
    return places


class _Answer:
    """Makes the messages about one partition."""

    def __init__(self, table: str, partition: PartitionId) -> None:
        self.silent = ""
        """The replicas that did not answer, and why."""
        self._table, self._partition = table, partition

    def unverified(self, reason: str, *, verdict: str = "unverified") -> pb.AdminMinute:
        return pb.AdminMinute(table=self._table, partition=self._partition.partition, verdict=verdict, reason=reason)

    def of(
        self, line: Comparison, places: Mapping[tuple[int, str], tuple[Offset, Offset]], lowest: int
    ) -> pb.AdminMinute:
        reason, verdict = self.silent, line.verdict
        if verdict == "not compared":
            reason = f"a trim or a compaction may have changed what lies below offset {lowest} of the log"
        return pb.AdminMinute(
            table=self._table,
            partition=self._partition.partition,
            minute_ms=line.minute * MINUTE_MS,
            minutes=line.minutes,
            verdict="unverified" if self.silent and verdict == "equal" else verdict,
            reason=reason,
            written=_counted(line.written),
            replicas=[
                _replica(node, replica, places.get((line.minute, node)))
                for node, replica in sorted(line.replicas.items())
            ],
        )


def _replica(node: str, replica: ReplicaCount, run: tuple[Offset, Offset] | None) -> pb.AdminReplicaCount:
    message = pb.AdminReplicaCount(
        node=node, verdict=replica.verdict, counted=_counted(replica.counted), written=_counted(replica.written)
    )
    if replica.verdict == "different":
        periods = [period for period in (replica.written, replica.counted) if period is not None]
        within = min(period.first for period in periods), max(period.last for period in periods)
        message.differs_from, message.differs_to = run or within
        if run is not None:
            message.reason = f"offsets {run[0]} to {run[1]} are in the log and were not folded here"
        elif replica.written is None:
            message.reason = f"offsets {within[0]} to {within[1]} were folded here and are not in the log"
        else:
            message.reason = f"offsets {within[0]} to {within[1]}: other batches than the log's were folded here"
    return message


def _counted(period: Period | None) -> pb.AdminCounted | None:
    if period is None:
        return None
    return pb.AdminCounted(
        first=period.first, last=period.last, offsets=period.offsets, checksum=f"{period.checksum:016x}"
    )
