"""Is every tier's tally the log's? Minute by minute, in numbers that must be equal (`log_tier.tally`).

The replicas, and the subscriptions to them, say first what they counted; then the log's batches are read again and
counted, up to an offset that is not below any of theirs. So a difference is a batch that was lost, or is another one:
never a matter of who was asked when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, PartitionId, table_id_to_bytes
from log_tier.model.log import Bounds, Log
from log_tier.tally.compare import Comparison, ReplicaCount, compare, cuts, difference_text, log_time_at, window_of
from log_tier.tally.period import MINUTE_MS, PartitionTally, Period
from router.admin.audits.audit_acknowledged import audit_acknowledged
from router.admin.planners.cluster_view import Situation
from router.membership.views import Membership
from router.proto import admin_pb2 as pb
from serving_tier.proof.log_counts import count_log, locate_missing
from serving_tier.proto.node_pb2 import TallyRequest
from serving_tier.service.tallies import subscriptions_from, tally_from

__all__ = ["audit_partition"]

# Offsets are looked for in the minutes that differ first. A replica that differs in more is built anew, not studied.
_LOCATED_MAX: Final = 10

_DOING: Final = {"replica": "folded", "subscription": "delivered"}

_CLEANED: Final = (
    "Kafka compacts the topic, so what was folded may be gone from it; `duramen admin verify` compares the replicas "
    "with each other"
)


class _Counter(NamedTuple):
    """Who counted."""

    tier: Literal["replica", "subscription"]
    node: str
    name: str = ""

    @property
    def key(self) -> str:
        """A name among those of all tiers."""
        return f"{self.tier} {self.node} {self.name}"


async def audit_partition(
    situation: Situation,
    log: Log,
    membership: Membership,
    partition: PartitionId,
    request: pb.AdminAuditDataRequest,
    *,
    timeout: float = 120.0,
) -> list[pb.AdminMinute]:
    """Compare what the tiers of a partition counted with what the log holds, and so what a client was acknowledged, as
    far as the request says. `timeout`: of one question to a node, in seconds.
    """
    return [
        *await _audit_counts(situation, log, membership, partition, since_ms=request.since_ms, timeout=timeout),
        *await audit_acknowledged(situation.cluster.table(partition.table).name, log, partition, request.acknowledged),
    ]


async def _audit_counts(
    situation: Situation,
    log: Log,
    membership: Membership,
    partition: PartitionId,
    *,
    since_ms: int,
    timeout: float,
) -> list[pb.AdminMinute]:
    """Compare what the readable replicas of a partition and the subscriptions to them counted with what the log holds,
    from the minute of `since_ms` on. Reads the log from there once; `timeout`: of one question to a node, in seconds.
    """
    table = situation.cluster.table(partition.table)
    answer = _Answer(table.name, partition)
    nodes = table.readable(partition.partition)
    silent = {node: situation.lost(node) for node in nodes if not situation.is_alive(node)}
    counted = await _ask(membership, partition, [node for node in nodes if node not in silent], timeout, silent)
    answer.silent = "; ".join(f"{node}: {why}" for node, why in sorted(silent.items()))
    if not counted:
        return [answer.unverified(answer.silent or "it has no replica that can be read")]
    answer.counters = {counter.key: counter for counter in counted}
    tallies = {counter.key: window_of(tally, since_ms // MINUTE_MS) for counter, tally in counted.items()}
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
) -> dict[_Counter, PartitionTally]:
    """What each node's replica counted, and the subscriptions to it; those that do not answer are noted in `silent`."""
    request = TallyRequest(table_id=table_id_to_bytes(partition.table), partition=partition.partition)

    async def one(node: str) -> dict[_Counter, PartitionTally]:
        try:
            reply = await membership.tally(node, request, timeout=timeout)
        except DuramenError as error:
            silent[node] = error.message
            return {}
        given = subscriptions_from(reply)
        return {
            _Counter("replica", node): tally_from(reply),
            **{_Counter("subscription", node, name): tally for name, tally in given.items()},
        }

    found: dict[_Counter, PartitionTally] = {}
    for of_node in await asyncio.gather(*map(one, nodes)):
        found |= of_node
    return found


async def _located(
    log: Log, partition: PartitionId, lines: list[Comparison]
) -> Mapping[tuple[int, str], tuple[Offset, Offset]]:
    """For each difference, by minute and counter, the run of offsets that is missing, where one run explains it."""
    places: dict[tuple[int, str], tuple[Offset, Offset]] = {}
    differing = [
        (line.minute, counter, replica)
        for line in lines
        for counter, replica in line.replicas.items()
        if replica.verdict == "different" and replica.written is not None
    ]
    for minute, counter, replica in differing[:_LOCATED_MAX]:
        assert replica.written is not None, f"{replica} has nothing to be compared with"
        run = await locate_missing(log, partition, replica.written, replica.counted)
        if run is not None:
            places[minute, counter] = run
    return places


class _Answer:
    """Makes the messages about one partition."""

    def __init__(self, table: str, partition: PartitionId) -> None:
        self.silent = ""
        """The replicas that did not answer, and why."""
        self.counters: dict[str, _Counter] = {}
        """By key."""
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
            replicas=self._counts("replica", line, places),
            subscriptions=self._counts("subscription", line, places),
        )

    def _counts(
        self, tier: str, line: Comparison, places: Mapping[tuple[int, str], tuple[Offset, Offset]]
    ) -> Iterable[pb.AdminReplicaCount]:
        for key, replica in sorted(line.replicas.items()):
            counter = self.counters[key]
            if counter.tier == tier:
                yield _replica(counter, replica, places.get((line.minute, key)))


def _replica(counter: _Counter, replica: ReplicaCount, run: tuple[Offset, Offset] | None) -> pb.AdminReplicaCount:
    message = pb.AdminReplicaCount(
        node=counter.node,
        name=counter.name,
        verdict=replica.verdict,
        counted=_counted(replica.counted),
        written=_counted(replica.written),
    )
    if replica.verdict == "different":
        message.differs_from, message.differs_to, message.reason = difference_text(replica, run, _DOING[counter.tier])
    return message


def _counted(period: Period | None) -> pb.AdminCounted | None:
    if period is None:
        return None
    return pb.AdminCounted(
        first=period.first, last=period.last, offsets=period.offsets, checksum=f"{period.checksum:016x}"
    )
