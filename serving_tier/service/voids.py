"""Which records of a partition's log changed nothing, for readers of the log itself (Spark).

A record that was rejected, or is a retry's second copy, lies in the log like any other; the replicas know which ones
those are. A reader of a change feed asks for a range of offsets and leaves out what is named here: `router.data.watch`
does the same for those who follow a table through a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from log_tier.model.errors import LimitExceeded, OffsetTrimmed
from log_tier.model.identifiers import Offset
from serving_tier.fold.verdicts import Verdict
from serving_tier.replica.replica import Replica

__all__ = ["VOIDS_MAX", "void_offsets"]

# The largest batch. A reply, were all of them void, is 600 KiB, and finding them takes some 50 ms of a thread.
VOIDS_MAX: Final = 65_536


async def void_offsets(replica: Replica, first: Offset, last: Offset, *, timeout: float) -> Sequence[Offset]:
    """The void offsets between `first` and `last` (inclusive), rising, once `last` is applied. Two lookups, and
    the rows.

    Raises `LimitExceeded` for more than `VOIDS_MAX` offsets, `OffsetTrimmed` where it is forgotten which ones those
    are, `ReplicaBehind` after `timeout` seconds, `TokenAhead`, and why the replica was closed.
    """
    if last - first >= VOIDS_MAX:
        raise LimitExceeded(
            f"verdicts are answered for at most {VOIDS_MAX} offsets at a time, {last - first + 1} were requested",
            limit=VOIDS_MAX,
            size=last - first + 1,
        )
    await replica.wait_applied(last, timeout=timeout)

    def look() -> list[Offset]:
        with replica.reading() as index:
            outcomes = index.outcomes(first, last)
            # Asked after the outcomes: what is remembered now was remembered when they were read.
            remembered = index.verdicts_from
        if first < remembered:
            raise OffsetTrimmed(
                f"which records of {replica.name} were rejected is known from offset {remembered} on, offset {first} "
                "was requested: begin there",
                partition=replica.id.partition,
                asked=first,
                earliest=remembered,
            )
        return sorted(
            offset
            for offset, outcome in outcomes.items()
            if outcome.duplicate_of is not None or outcome.verdict is not Verdict.ACCEPTED
        )

    return await asyncio.to_thread(look)
