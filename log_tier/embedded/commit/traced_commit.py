"""The spans of a commit that has callers which are traced. Called after they have their answers.

Each append has, in its caller's trace, the times that the caller waited: in the queue, for the write, for the sync. The
commit itself is one span, with links to the appends of all of them (`log_tier.tracing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import NamedTuple

from log_tier.embedded.commit.appends import Append, Results
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.model.errors import DuramenError
from log_tier.model.log import Appended
from log_tier.tracing.passing import record_part
from log_tier.tracing.span import CALLERS_MAX, Span
from log_tier.tracing.written import TracedWrite

__all__ = ["CommitTimes", "keep_traces", "trace_commit"]


class CommitTimes(NamedTuple):
    """By the log's stopwatch, in seconds."""

    began_s: float
    written_s: float
    """Everything was with the kernel."""
    stable_s: float
    now_s: float


def keep_traces(
    appends: Sequence[Append],
    outcomes: MutableMapping[PartitionLog, Iterator[Appended | DuramenError]],
    stopwatch_s: Callable[[], float],
) -> float:
    """Note who wrote what was just staged, before anybody can read it; the time before that. `outcomes`: of each
    partition's batches, in their order.
    """
    written_s = stopwatch_s()
    staged = {partition: list(each) for partition, each in outcomes.items()}
    places = {partition: iter(each) for partition, each in staged.items()}
    for append in appends:
        for partition, _, _ in append.batches:
            place = next(places[partition])
            if append.callers and isinstance(place, Appended):
                write = TracedWrite(place.base_offset, place.last_offset, append.callers)
                partition.traced.note(partition.id, write)
    outcomes.update({partition: iter(each) for partition, each in staged.items()})
    return written_s


def trace_commit(placed: Sequence[tuple[Append, Results]], times: CommitTimes, batches: int, size: int) -> None:
    """Make the spans. `placed`: the appends of callers that are traced, with what came of them; `batches` and `size`:
    of the whole commit.
    """
    each = [(caller, append, found) for append, found in placed for caller in append.callers]
    appends = [_trace_append(*one, times) for one in each[:CALLERS_MAX]]
    commit = appends[0].child("log commit", links=appends[1:], ago_s=times.now_s - times.began_s)
    commit.set("duramen.commit.batches", batches)
    commit.set("duramen.commit.bytes", size)
    commit.end(ago_s=times.now_s - times.stable_s)
    for append in appends[1:]:
        append.link(commit)
    for append in appends:
        append.end(ago_s=times.now_s - times.stable_s)


def _trace_append(caller: Span, append: Append, found: Results, times: CommitTimes) -> Span:
    """The span of an append, and its parts; it has not ended."""
    began_s, written_s, stable_s, now_s = times
    came_s = min(append.came_s, began_s)
    span = caller.child("log append", ago_s=now_s - came_s)
    for part, from_s, to_s in (
        ("log queue", came_s, began_s),
        ("log write", began_s, written_s),
        ("log sync", written_s, stable_s),
    ):
        record_part(span, part, now_s - from_s, ended_ago_s=now_s - to_s)
    for (partition, _, _), outcome in zip(append.batches, found, strict=True):
        if isinstance(outcome, Appended):
            span.place(partition.id.partition, outcome.base_offset)
        else:
            span.fail(outcome.code)
    return span
