"""The follower of the map: a change reaches all comparers, none waits for another one, none is lost with one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from kit.deadlines import patience_s, until

from log_tier.catalog.catalog import MapFeed
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.background import failing
from log_tier.model.errors import DuramenError, ShuttingDown, Unavailable
from log_tier.model.identifiers import Offset


class Feed(MapFeed):
    """Maps that a test makes."""

    def change(self) -> int:
        """Make a newer map; its version."""
        self.advance(replace(self.map, version=Offset(self.map.version + 1)))
        return self.map.version

    async def close(self) -> None:
        raise AssertionError("the maps are their owner's")


class Seen(list[int]):
    """A comparer that notes versions."""

    def __call__(self, cluster: ClusterMap) -> None:
        self.append(cluster.version)


@pytest.fixture
def feed() -> Feed:
    return Feed()


async def test_a_change_reaches_all(feed: Feed) -> None:
    follower, first, second = MapFollower(feed), Seen(), Seen()
    leave_first = await follower.follow(first, name="first")
    now = feed.map.version
    assert first == [now], "the present map comes before `follow` returns"
    changed = feed.change()
    await until(lambda: first == [now, changed])
    leave_second = await follower.follow(second, name="second")
    last = feed.change()
    await until(lambda: (first, second) == ([now, changed, last], [changed, last]))
    await leave_second()
    feed.change()
    await until(lambda: first[-1] == feed.map.version)
    assert second == [changed, last], "who left is not called"
    await leave_first()
    await leave_first()
    assert not [task for task in asyncio.all_tasks() if "map" in task.get_name()], "the loop ends with the last one"


async def test_it_goes_on_with_the_next_reader(feed: Feed) -> None:
    follower, seen = MapFollower(feed), Seen()
    await (await follower.follow(Seen(), name="first"))()
    missed = feed.change()
    leave = await follower.follow(seen, name="second")
    assert seen == [missed], "what came while nobody followed is the present map"
    changed = feed.change()
    await until(lambda: seen[-1] == changed)
    await leave()
    feed.change()
    await asyncio.sleep(0)
    assert seen == [missed, changed]


async def test_two_changes_in_one_round_are_seen_as_one(feed: Feed) -> None:
    follower, seen = MapFollower(feed), Seen()
    leave = await follower.follow(seen, name="seen")
    feed.change()
    last = feed.change()
    await until(lambda: seen[-1] == last)
    assert seen == [last - 2, last]
    await leave()


async def test_one_that_is_busy_keeps_nobody_waiting(feed: Feed) -> None:
    follower, quick = MapFollower(feed), Seen()
    slow: list[int] = []
    may_end = asyncio.Event()
    may_end.set()

    async def compare(cluster: ClusterMap) -> None:
        slow.append(cluster.version)
        await may_end.wait()

    leave = await follower.follow(compare, name="slow")
    leave_quick = await follower.follow(quick, name="quick")
    may_end.clear()
    begun = feed.change()
    await until(lambda: slow[-1] == begun)
    for _ in range(3):
        last = feed.change()
        await until(lambda last=last: quick[-1] == last)  # type: ignore[misc]
    assert slow[-1] == begun, "one comparison at a time"
    may_end.set()
    await until(lambda: slow[-1] == last)
    assert slow == [begun - 1, begun, last], "what came meanwhile is seen as one"
    may_end.clear()
    feed.change()
    await until(lambda: slow[-1] == feed.map.version)
    await leave()  # ends the comparison that is under way
    await leave_quick()


@pytest.mark.parametrize("waits", [False, True], ids=["a function", "a coroutine"])
async def test_one_that_fails_does_not_stop_the_others(
    feed: Feed, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ended: asyncio.Future[DuramenError] = asyncio.get_running_loop().create_future()
    follower, seen = MapFollower(feed), Seen()
    calls = 0

    def fails(_: ClusterMap) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise RuntimeError("a bug")

    async def fails_later(cluster: ClusterMap) -> None:
        fails(cluster)

    leave_failing = await follower.follow(fails_later if waits else fails, name="hosting n1", failed=failing(ended))
    leave = await follower.follow(seen, name="seen")
    feed.change()
    error = await asyncio.wait_for(ended, patience_s(20))
    assert error.message.startswith("hosting n1 ended (RuntimeError('a bug')): restart this process")
    assert "Traceback" in caplog.text
    last = feed.change()
    await until(lambda: seen[-1] == last)
    assert calls == 2, "it is not called again"
    await leave_failing()
    await leave()


async def test_the_first_comparison_raises_to_the_caller(feed: Feed) -> None:
    def fails(_: ClusterMap) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        await MapFollower(feed).follow(fails, name="never registered")


@pytest.mark.parametrize(
    ("failure", "reported"), [(Unavailable("the log is gone"), 2), (ShuttingDown("the catalog is closed"), 0)]
)
async def test_a_map_that_cannot_be_followed_any_more(feed: Feed, failure: DuramenError, reported: int) -> None:
    """Every owner hears of it; of a catalog that was closed on purpose nobody does."""
    follower, failures = MapFollower(feed), list[DuramenError]()
    leaves = [await follower.follow(Seen(), name=name, failed=failures.append) for name in ("a", "b")]
    feed.fail(failure)
    await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name() == "following the map"])
    assert len(failures) == reported
    for leave in leaves:
        await leave()
