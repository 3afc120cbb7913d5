"""Is what a client was acknowledged in the log? Its runs are compared with the log's batches of its producers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from log_tier.model.errors import DuramenError, LimitExceeded
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.log import Log
from log_tier.tally.acknowledged import AckRun, RunFound, find_runs
from log_tier.tally.period import MINUTE_MS
from router.proto import admin_pb2 as pb
from serving_tier.proof.log_counts import headers_between

__all__ = ["RUNS_MAX", "audit_acknowledged", "run_message"]

# Ten fields each, of the hundred thousand that a request may have: a week of one producer in one partition is 10,080.
RUNS_MAX: Final = 9_000

_MINUTES: Final = 1


async def audit_acknowledged(
    table: str, log: Log, partition: PartitionId, acknowledged: Sequence[pb.AdminAcknowledged]
) -> list[pb.AdminMinute]:
    """One answer for each run of this partition. Reads the log once, from the first of them to the last. Raises
    `LimitExceeded` for more than `RUNS_MAX` runs.
    """
    if len(acknowledged) > RUNS_MAX:
        raise LimitExceeded(
            f"a session of {len(acknowledged):,} runs is compared at once, and {RUNS_MAX:,} may be: name a partition, "
            "or a session that is shorter",
            limit=RUNS_MAX,
            size=len(acknowledged),
        )
    mine = (each for each in acknowledged if (each.table_id, each.partition) == partition)
    runs = [_run_from(each, partition) for each in mine]
    if not runs:
        return []
    try:
        bounds = await log.bounds(partition)
        lowest = max(bounds.earliest, bounds.compacted)
        start = Offset(max(bounds.earliest, min(run.first for run in runs)))
        last = Offset(min(bounds.latest, max(run.last for run in runs)))
        headers = await headers_between(log, partition, start, last) if start <= last else []
        found = await asyncio.to_thread(find_runs, headers, runs)
    except DuramenError as error:
        return [pb.AdminMinute(table=table, partition=partition.partition, verdict="unverified", reason=error.message)]
    # On Kafka a large batch is cut, and put together again of its records: their number and sequences are compared.
    by_checksum = bool(bounds.newest_ms)
    return [_answer(table, each, lowest, by_checksum=by_checksum, cleaned=bounds.cleaned) for each in found]


def _answer(table: str, found: RunFound, lowest: int, *, by_checksum: bool, cleaned: bool) -> pb.AdminMinute:
    run = found.run
    verdict, reason = "equal", ""
    if not found.is_equal(by_checksum=by_checksum):
        if run.first < lowest or cleaned:
            verdict, reason = "not compared", f"a trim or a compaction removed records below offset {lowest} of the log"
        else:
            verdict, reason = "different", _difference(found)
    count = pb.AdminReplicaCount(
        name=f"session {run.producer:016x}",
        verdict=verdict,
        counted=pb.AdminCounted(first=run.first, last=run.last, offsets=run.records, checksum=f"{run.checksum:016x}"),
        reason=reason if verdict == "different" else "",
    )
    if verdict == "different":
        count.differs_from, count.differs_to = found.lacks or (run.first, run.last)
    message = pb.AdminMinute(
        table=table,
        partition=run.partition.partition,
        minute_ms=run.minute * MINUTE_MS,
        minutes=_MINUTES,
        verdict=verdict,
        reason=reason if verdict == "not compared" else "",
        acknowledged=[count],
    )
    if found.records:
        message.written.CopyFrom(
            pb.AdminCounted(
                first=found.first, last=found.last, offsets=found.records, checksum=f"{found.checksum:016x}"
            )
        )
    return message


def _difference(found: RunFound) -> str:
    run = found.run
    if found.lacks is not None:
        first, last = found.lacks
        return (
            f"{run.records - found.records:,} of {run.records:,} records, between offsets {first} and {last}, were "
            "acknowledged and are not in the log"
        )
    return f"offsets {found.first} to {found.last} hold other records than those that were acknowledged"


def _run_from(message: pb.AdminAcknowledged, partition: PartitionId) -> AckRun:
    """A run of a request."""
    return AckRun(
        partition,
        message.producer,
        message.minute,
        Offset(message.first),
        Offset(message.last),
        message.sequence,
        message.records,
        message.checksum,
    )


def run_message(run: AckRun) -> pb.AdminAcknowledged:
    """A run for a request."""
    return pb.AdminAcknowledged(
        table_id=run.partition.table,
        partition=run.partition.partition,
        producer=run.producer,
        minute=run.minute,
        first=run.first,
        last=run.last,
        sequence=run.sequence,
        records=run.records,
        checksum=run.checksum,
    )
