"""Lost requests and lost replies: a write takes effect once or not at all, and its caller learns what is known."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from kit.client.in_between import InBetween, fail_with, lose_reply, lose_request, refuse, stop_after_writing
from kit.client.table_size import records
from kit.cluster.one_machine import held
from kit.deadlines import patience_s, until, within

import duramen
from duramen.client.database import Database
from duramen.client.table import Table
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.partitioner import partition_of
from router.data.local_data import LocalData
from router.data.requests import WritePart
from router.routing.failover import FailoverConnection

DEADLINE_S = 20


@pytest.fixture
def flights(local: Database) -> Table:
    return local.table("flights")


@pytest.mark.parametrize("fault", [lose_reply, lose_request])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_put_takes_effect_once_at_its_original_offset(
    between: InBetween, flights: Table, fault: Any, times: int
) -> None:
    before = await flights.put(b"k", b"before")
    between.write_faults = [fault] * times
    done = await flights.put(b"k", b"v")
    assert done.offset == before.offset + 1
    assert await flights.get_entry(b"k", after=done.token) == (b"v", done.offset, 0)
    assert await records(flights) == 2 + (times if fault is lose_reply else 0)
    following = await flights.put(b"k", b"w", if_version=done.offset)
    assert following.offset > done.offset


@pytest.mark.parametrize("fault", [lose_reply, stop_after_writing])
async def test_what_a_write_returns_is_the_version_that_the_next_condition_needs(
    between: InBetween, flights: Table, fault: Any
) -> None:
    """Of the copy that counts, whatever the first try was answered with."""
    between.write_faults = [fault]
    done = await flights.put(b"{k}", b"1")
    between.write_faults = [fault]
    done = await flights.put(b"{k}", b"2", if_version=done.offset)
    between.write_faults = [fault]
    done = await flights.update(b"{k}", add=1, if_version=done.offset)
    between.write_faults = [fault]
    await flights.delete(b"{k}", if_version=done.offset)
    between.write_faults = [fault]
    done = await flights.put(b"{k}", b"3", if_absent=True)
    between.write_faults = [fault]
    group = await flights.batch().put(b"{k}", b"4", if_version=done.offset).put(b"{k}2", b"5").commit()
    versions = [(await flights.get_entry(key)).version for key in (b"{k}", b"{k}2")]  # type: ignore[union-attr]
    assert [each.offset for each in group] == versions
    between.write_faults = [fault]
    many = await flights.put_many({b"{k}": b"6"})
    assert set(many.offsets.values()) == {(await flights.get_entry(b"{k}")).version}  # type: ignore[union-attr]


async def test_a_writer_tells_the_place_of_the_copy_that_counts(between: InBetween, flights: Table) -> None:
    async with flights.writer("twice") as writer:
        await writer.put(b"{k}1", b"v")
        await writer.put(b"{k}2", b"v")
        between.write_faults = [lose_reply, stop_after_writing]
        done = await writer.flush()
    entry = await flights.get_entry(b"{k}2", after=done.token)
    assert entry is not None
    assert set(done.offsets.values()) == {entry.version}
    assert done.records == 2


@pytest.mark.parametrize("slow", [False, True])
async def test_a_request_that_is_doubled_on_the_way(
    data_plane: LocalData, between: InBetween, flights: Table, slow: bool
) -> None:
    """The client has sent once, and still gets the offset of the copy that counts; also where that takes a while."""
    database = Database(FailoverConnection([between, data_plane]))
    table = database.table("flights")
    ref = await table.lookup.resolve()
    between.write_faults = [stop_after_writing]
    replicas = [data_plane.node.replica(PartitionId(ref.id, Partition(number))) for number in range(ref.partitions)]
    with held(*replicas) if slow else nullcontext():
        writing = asyncio.ensure_future(table.put(b"k", b"v"))
        if slow:  # its place is known, and is returned when the verdict is there
            writes = database.context.writes.gatherer
            await until(lambda: bool(writes._tasks) and not writes.rounds.under_way and bool(between.writes))
            assert not writing.done()
    done = await writing
    assert await table.get_entry(b"k", after=done.token) == (b"v", done.offset, 0)


async def test_an_update_is_applied_once_and_gives_its_result(between: InBetween, flights: Table) -> None:
    await flights.update(b"n", add=5)
    between.write_faults = [lose_reply, lose_reply]
    done = await flights.update(b"n", add=1)
    assert (done.value, done.offset) == (6, 1)
    assert await flights.get(b"n") == b"6"
    assert (await flights.update(b"n", add=1)).value == 7


async def test_a_rejection_is_final(between: InBetween, flights: Table) -> None:
    """The second copy must not be judged again: what it found would be its own first copy."""
    await flights.put(b"k", b"v")
    between.write_faults = [lose_reply]
    with pytest.raises(duramen.ConditionFailed) as caught:
        await flights.put(b"k", b"w", if_absent=True)
    assert caught.value.fields == {"offset": 1, "actual": 0, "failed": 1}
    between.write_faults = [lose_reply]
    done = await flights.put(b"new", b"v", if_absent=True)
    assert await flights.get_entry(b"new") == (b"v", done.offset, 0)


async def test_an_atomic_batch_is_applied_once(between: InBetween, flights: Table) -> None:
    between.write_faults = [lose_reply, lose_request, lose_reply]
    done = await flights.batch().put(b"{u}a", b"1").update(b"{u}n", add=2).update(b"{u}n", add=3).commit()
    assert [one.offset for one in done] == [0, 1, 2]
    assert [one.value for one in done] == [None, 2, 5]
    assert await flights.get(b"{u}n") == b"5"


async def test_many_at_once(between: InBetween, flights: Table) -> None:
    between.write_faults = [lose_reply, lose_request, lose_reply, refuse] * 3
    counted = await asyncio.gather(*(flights.update(b"n%d" % (number % 7), add=1) for number in range(70)))
    assert sorted(done.value for done in counted if done.value) == sorted([*range(1, 11)] * 7)
    assert await flights.get_many([b"n%d" % number for number in range(7)]) == [b"10"] * 7
    between.write_faults = [lose_reply] * 4
    done_many = await flights.put_many([(b"k%d" % number, b"v") for number in range(100)])
    entries = [await flights.get_entry(b"k%d" % number) for number in range(100)]
    last: dict[int, int] = {}
    for number, entry in enumerate(entries):
        assert entry is not None
        partition = partition_of(b"k%d" % number, 4)
        last[partition] = max(last.get(partition, -1), entry.version)
    assert done_many.offsets == last


async def test_giving_up_says_unknown_and_the_next_writes_work(between: InBetween, flights: Table) -> None:
    await flights.put(b"k", b"before")
    between.write_faults = [lose_reply] * 1000
    with pytest.raises(duramen.WriteUnknown, match="once or not at all; read the key to know"):
        await flights.put(b"k", b"v", timeout=patience_s(0.3))
    between.write_faults = []
    assert await flights.get(b"k", level="strong") == b"v"
    done = await flights.put(b"k", b"after")
    assert await flights.get_entry(b"k") == (b"after", done.offset, 0)


async def test_a_late_copy_of_an_abandoned_batch_is_void(
    data_plane: LocalData, between: InBetween, flights: Table
) -> None:
    abandoned: list[WritePart] = []

    async def keep(call: Any) -> Any:
        abandoned[:] = between.writes[-1]
        raise duramen.Disconnected("lost on the way")

    between.write_faults = [keep] * 1000
    with pytest.raises(duramen.WriteUnknown):
        await flights.put(b"k", b"abandoned", timeout=patience_s(0.3))
    between.write_faults = []
    done = await flights.put(b"k", b"after")
    (late,) = await data_plane.write(abandoned, timeout=DEADLINE_S)
    assert isinstance(late, duramen.WriteUnknown), "its own outcome is forgotten: no offset of it is a version"
    assert await flights.get_entry(b"k", level="strong") == (b"after", done.offset, 0)
    assert decode_batch_of(abandoned) == [b"abandoned"]


def decode_batch_of(parts: list[WritePart]) -> list[bytes]:
    stamped = stamp_batch(parts[0].batch, base_offset=Offset(0), timestamp_ms=0, unsynced=0)
    return list(decode_batch(stamped).columns.values)


async def test_what_cannot_have_arrived_is_not_unknown(between: InBetween, flights: Table) -> None:
    await flights.put(b"k", b"before")
    between.write_faults = [refuse] * 1000
    with pytest.raises(duramen.Disconnected, match="connection refused"):
        await flights.put(b"k", b"v", timeout=patience_s(0.3))
    between.write_faults = [refuse] * 3
    await flights.put(b"k", b"after")
    assert await flights.get(b"k") == b"after"


@pytest.mark.parametrize(
    ("error", "kind", "tries"),
    [
        (duramen.DiskFull("no room"), duramen.DiskFull, 1),
        (duramen.BatchRefused("bad"), duramen.BatchRefused, 1),
        (duramen.LogStopped("fsync failed"), duramen.LogStopped, 1),
        (duramen.WriteUnknown("applied or not", offset=3), duramen.WriteUnknown, 1),
        (duramen.DeadlineExceeded("too late"), duramen.WriteUnknown, 1),
        (DuramenError("a bug in the server"), duramen.WriteUnknown, 1),
        (duramen.Overloaded("full"), duramen.Overloaded, 2),
        (duramen.ShuttingDown("going"), duramen.ShuttingDown, 2),
        (duramen.WriteUnknown("no reply"), duramen.WriteUnknown, 2),
    ],
)
async def test_what_each_error_means_for_a_write(
    between: InBetween, flights: Table, error: DuramenError, kind: type[DuramenError], tries: int
) -> None:
    await flights.put(b"k", b"before")
    between.writes.clear()
    between.write_faults = [fail_with(error)] * 1000
    with pytest.raises(kind) as caught:
        await flights.put(b"k", b"v", timeout=patience_s(0.3))
    assert type(caught.value) is kind
    assert len(between.writes) >= tries
    assert (len(between.writes) == 1) == (tries == 1)
    between.write_faults = []
    await flights.put(b"k", b"after")


async def test_a_definite_error_after_a_lost_reply_stays_unknown(between: InBetween, flights: Table) -> None:
    """The first copy may be in the log, whatever is said about the second."""
    await flights.put(b"k", b"before")
    between.write_faults = [lose_reply, fail_with(duramen.DiskFull("no room"))]
    with pytest.raises(duramen.WriteUnknown, match="no room"):
        await flights.put(b"k", b"v")
    assert await flights.get(b"k", level="strong") == b"v"


async def test_a_log_that_stops_under_a_write_leaves_it_unknown(between: InBetween, flights: Table) -> None:
    """The second copy is refused, because the log has stopped; that says nothing about the first one."""
    between.write_faults = [
        fail_with(duramen.WriteUnknown("a sync failed")),
        fail_with(duramen.LogStopped("a sync failed")),
    ]
    with pytest.raises(duramen.WriteUnknown, match="a sync failed"):
        await flights.put(b"k", b"v")
    assert len(between.writes) == 2


async def test_reads_are_asked_again(between: InBetween, flights: Table) -> None:
    done = await flights.put(b"k", b"v")
    for faults in ([lose_reply], [lose_request, refuse, lose_reply], [fail_with(duramen.Overloaded("full"))]):
        between.read_faults = list(faults)
        assert await flights.get(b"k") == b"v"
        between.read_faults = list(faults)
        assert await flights.get(b"k", after=done.token, level="strong") == b"v"
        between.read_faults = list(faults)
        assert await flights.get_many([b"k", b"absent"]) == [b"v", None]
        between.scan_faults = list(faults)
        assert [pair async for pair in flights.scan()] == [(b"k", b"v")]
    between.find_faults = [lose_reply, refuse]
    assert await Table(flights.lookup.context, "flights").get(b"k") == b"v"


async def test_a_scan_in_a_version_that_has_ended_is_not_asked_for_again(between: InBetween, flights: Table) -> None:
    await flights.put(b"k", b"v")
    ended, late = duramen.VersionMissing("gone", version=2, ended=1), duramen.VersionMissing("not yet", version=2)
    between.scan_faults = [fail_with(late), fail_with(ended)]
    with pytest.raises(duramen.VersionMissing, match="gone"):
        await anext(flights.scan(timeout=3600.0))
    assert not between.scan_faults, "the one that is late was asked again"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (duramen.Disconnected("gone"), duramen.Disconnected),
        (duramen.IndexDamaged("byte 7"), duramen.IndexDamaged),
        (duramen.ReplicaBehind("at 1, asked 2", applied=1), duramen.ReplicaBehind),
        (duramen.LimitExceeded("too large"), duramen.LimitExceeded),
    ],
)
async def test_reads_that_fail_say_why(
    between: InBetween, flights: Table, error: DuramenError, kind: type[DuramenError]
) -> None:
    await flights.put(b"k", b"v")
    between.read_faults = [fail_with(error)] * 1000
    between.scan_faults = [fail_with(error)] * 1000
    between.find_faults = [fail_with(error)] * 1000
    short = patience_s(0.3)
    failures = await asyncio.gather(
        flights.get(b"k", timeout=short),
        flights.get_many([b"k"], timeout=short),
        anext(flights.scan(timeout=short)),
        Table(flights.lookup.context, "flights").get(b"k", timeout=short),
        return_exceptions=True,
    )
    for each in failures:
        assert isinstance(each, kind)
        assert error.message in str(each)
        assert each.fields == error.fields


async def test_a_bug_below_ends_the_calls_and_not_the_client(between: InBetween, flights: Table) -> None:
    await flights.put(b"k", b"v")

    async def bug(call: Any) -> Any:
        raise ZeroDivisionError("a bug")

    handled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: handled.append(context))
    between.read_faults, between.write_faults = [bug], [bug]
    async with within(DEADLINE_S):
        with pytest.raises(DuramenError, match="a bug: ZeroDivisionError"):
            await flights.get(b"k")
        with pytest.raises(duramen.WriteUnknown, match="a bug: ZeroDivisionError"):
            await flights.put(b"k", b"w")
        await flights.put(b"k", b"x")
        assert await flights.get(b"k") == b"x"
