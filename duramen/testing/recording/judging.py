"""The end of a test: the log and every replica are read, and each recorded reply is held against them."""

from __future__ import annotations

from typing import Final, NamedTuple

from duramen.testing.recording.call_recorder import CallRecorder
from duramen.testing.recording.evidence import Evidence
from duramen.testing.recording.table_recorder import TableRecorder
from duramen.testing.running.errors import NotJudged, PromiseBroken
from duramen.verification.checker import INVARIANTS, Violation, check_history
from duramen.verification.history import History
from duramen.verification.observations import differences, read_open_log, read_served_log, tell_void
from duramen.verification.recorder import Recorder
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token

__all__ = ["Judged", "judge"]

_SHOWN: Final = 10
"""People read the first few violations, and one is enough."""


class Judged(NamedTuple):
    """What a check has looked at: a check of nothing proves nothing."""

    tables: int
    calls: int
    records: int
    """Of the log."""


async def judge(recorder: CallRecorder, evidence: Evidence) -> Judged:
    """Hold everything that was recorded against what the log and the replicas hold.

    Raises `PromiseBroken`, and `NotJudged` for what the checker's model does not have.
    """
    tables = calls = records = 0
    violations: list[tuple[str, Violation]] = []
    for table in list(recorder.tables.values()):
        entry = evidence.tables.get(table.table_id)
        if entry is None:
            continue  # it was dropped
        ref = entry.ref
        if table.unjudged:
            raise NotJudged(f"table {ref.name}: {table.unjudged}, and the checker's model has no such thing")
        history = await _whole(table, ref, evidence)
        tables, calls, records = tables + 1, calls + len(table.recorder.calls), records + len(history.log)
        violations += [(ref.name, each) for each in check_history(history)]
    if violations:
        lines = [
            f"{each.invariant} ({INVARIANTS[each.invariant]}): table {name}: {each.what}"
            for name, each in violations[:_SHOWN]
        ]
        more = [f"and {len(violations) - _SHOWN} more"] if len(violations) > _SHOWN else []
        raise PromiseBroken("\n".join([f"{len(violations)} replies do not agree with the log", *lines, *more]))
    return Judged(tables, calls, records)


async def _whole(table: TableRecorder, ref: TableRef, evidence: Evidence) -> History:
    """The calls on a table, and what its log and its replicas hold now."""
    recorder = Recorder(list(table.recorder.calls), clock=table.recorder.clock)
    end = await _end_of(ref, evidence)
    token = Token({ref.id: end})
    served = await read_served_log(evidence.plane, ref, token)
    call = recorder.begin(-1, "served", session=False)
    log = await read_open_log(evidence.log, ref, token)
    recorder.end(call, "ok", differences=differences(served, log))
    tell_void(log, served)
    await evidence.read_replicas(ref, end, recorder)
    return History(ref.partitions, recorder.calls, log)


async def _end_of(ref: TableRef, evidence: Evidence) -> dict[Partition, Offset]:
    """Where each partition's log ends, but those that are empty."""
    partitions = [Partition(number) for number in range(ref.partitions)]
    ends = {each: (await evidence.log.bounds(ref.partition(each))).latest for each in partitions}
    return {partition: latest for partition, latest in ends.items() if latest > NOTHING}
