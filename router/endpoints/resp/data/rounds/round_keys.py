"""The keys of a round, and the work on them that a thread does where there are many. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from log_tier.model.identifiers import Offset
from router.endpoints.resp.data.rounds.queued_commands import Ran, Work, execute
from serving_tier.fold.entry import LiveEntry

__all__ = ["asked_keys", "claimed_keys", "executed_in_thread"]


def asked_keys(jobs: Sequence[Work]) -> list[bytes]:
    """The keys whose stored state the commands look at, each once."""
    if len(jobs) == 1:
        return list(dict.fromkeys(jobs[0].asked))
    written: set[bytes] = set()
    keys: dict[bytes, None] = {}
    for job in jobs:
        if written:
            keys.update((key, None) for key in job.asked if key not in written)
        else:
            keys.update(dict.fromkeys(job.asked))
        written.update(job.blind)
    return list(keys)


def claimed_keys(jobs: Sequence[Work]) -> tuple[list[bytes], frozenset[bytes]]:
    """`asked_keys`, in their order and as a set."""
    keys = asked_keys(jobs)
    return keys, frozenset(keys)


def executed_in_thread(
    jobs: Sequence[Work],
    found: Mapping[bytes, LiveEntry | None],
    now_ms: int,
    stopwatch_s: Callable[[], float],
    read_at: Offset,
    together: bool,
) -> list[Ran]:
    """`execute` in a thread, for a large round."""
    ran = execute(jobs, found, now_ms, stopwatch_s, read_at=read_at, together=together)
    if isinstance(found, dict):
        found.clear()  # here, and not on the loop: to free 50,000 takes 5 ms
    return ran
