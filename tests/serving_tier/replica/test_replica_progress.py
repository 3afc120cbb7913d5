"""A replica that shares a look at the log with others, until its own partition moves."""

from __future__ import annotations

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
