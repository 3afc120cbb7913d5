"""A replica that shares a look at the log with others, until its own partition moves."""

from __future__ import annotations

import asyncio

from kit.deadlines import within
from kit.index.one_replica import ReplicaSetting

from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.log import Bounds
from serving_tier.replica.lag import LastLook
from serving_tier.replica.replica import Replica


async def test_a_partition_that_moves_leaves_the_shared_look(replica: Replica) -> None:
    progress, began_s = replica.progress, replica.progress.clock()
    now_s = began_s
    progress.clock = lambda: now_s
    look = LastLook(began_s)
    progress.watch()
    changes = progress.changes
    assert progress.confirmed(progress.latest, asked_s=began_s, look=look)
    assert progress.changes > changes
    look.asked_s = now_s = began_s + 100
    assert (progress.lag_s, progress.stale_s) == (0.0, 0.0), "the look speaks for all who share it"
    progress.leave_look()
    look.asked_s = now_s = began_s + 200
    assert (progress.lag_s, progress.stale_s) == (100.0, 100.0), "it was last known to be level 100 s ago"


async def test_an_offset_that_is_applied_while_the_log_is_asked_is_not_waited_for(
    setting: ReplicaSetting, replica: Replica
) -> None:
    """The applier may be faster than the answer, and may have nothing to apply behind it."""
    progress, log_bounds = replica.progress, setting.log.bounds
    asked, applied = asyncio.Event(), asyncio.Event()

    class SlowAnswers:
        async def bounds(self, partition: PartitionId) -> Bounds:
            asked.set()
            await applied.wait()
            return await log_bounds(partition)

    wanted = await setting.write(b"a")
    await replica.wait_applied(wanted, timeout=20)
    progress._log = SlowAnswers()  # type: ignore[assignment]
    waiting = asyncio.ensure_future(progress.wait_applied(Offset(wanted + 1), timeout=20))
    await asked.wait()
    progress._log = setting.log
    written = await setting.write(b"b")
    assert written == wanted + 1
    await replica.wait_applied(written, timeout=20)
    applied.set()
    async with within(20):
        await waiting
