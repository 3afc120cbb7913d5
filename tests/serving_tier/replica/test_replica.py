"""A replica over a real log: it follows, it waits, it refuses to answer early, it closes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from kit.deadlines import patience_s, within
from kit.index.one_replica import ReplicaSetting

from log_tier.model.batch import Batch, Columns, decode_batch, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import (
    ReplicaBehind,
    ShuttingDown,
    TableNotFound,
    TokenAhead,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.log import Bounds
from log_tier.model.record import Operation
from serving_tier.replica.replica import Replica

ZERO = Partition(0)
T = TypeVar("T")


DEADLINE_S = 20


class HeldIndex:
    """Keeps a replica's index from applying: the seam at which it lags. `release` lets it go on."""

    def __init__(self, replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
        self._may_go = threading.Event()
        inner = replica.index.fold_in

        def fold_in(batches: Sequence[Batch]) -> object:
            self._may_go.wait()
            return inner(batches)

        monkeypatch.setattr(replica.index, "fold_in", fold_in)

    def release(self) -> None:
        self._may_go.set()


async def test_it_follows_the_log(setting: ReplicaSetting, replica: Replica) -> None:
    assert (replica.applied, replica.state) == (-1, "ready")
    last = await setting.write(b"a", b"b")
    await replica.wait_applied(last, timeout=DEADLINE_S)
    assert replica.index.get_value(b"b") == b"v"
    assert (replica.applied, replica.progress.latest) == (1, 1)


async def test_a_log_that_does_not_say_where_it_ends(
    setting: ReplicaSetting, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is for all of it: a caller who gave 50 ms learns after 50 ms how far the replica is."""

    async def silent(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(setting.log, "bounds", silent)
    async with within(DEADLINE_S):
        with pytest.raises(ReplicaBehind, match="has applied -1, the token asks 5; the log ends at -1"):
            await replica.wait_applied(Offset(5), timeout=0.05)


async def test_it_never_answers_early(
    setting: ReplicaSetting, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldIndex(replica, monkeypatch)
    last = await setting.write(b"a")
    waiting = asyncio.ensure_future(replica.wait_applied(last, timeout=DEADLINE_S))
    with pytest.raises(ReplicaBehind, match=r"flights/0 has applied -1, the token asks 0; the log ends at 0") as caught:
        await replica.wait_applied(last, timeout=0.25)
    assert caught.value.fields == {"partition": 0, "applied": -1, "asked": 0, "latest": 0}
    assert not waiting.done()
    held.release()
    await waiting
    assert replica.applied == last


async def test_what_the_log_does_not_hold_is_refused_at_once(setting: ReplicaSetting, replica: Replica) -> None:
    await setting.write(b"a")
    async with within(DEADLINE_S):
        with pytest.raises(TokenAhead, match="flights/0 for offset 7, the log ends at 0") as caught:
            await replica.wait_applied(Offset(7), timeout=10_000)
    assert caught.value.fields == {"partition": 0, "asked": 7, "latest": 0}


async def test_who_has_appended_it_waits_without_a_question_to_the_log(
    setting: ReplicaSetting, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    inner = setting.log.bounds

    async def bounds(partition: PartitionId) -> Bounds:
        asked.append(partition)
        return await inner(partition)

    monkeypatch.setattr(setting.log, "bounds", bounds)
    first = asyncio.ensure_future(replica.progress.wait_written(Offset(0), timeout=DEADLINE_S))
    second = asyncio.ensure_future(replica.progress.wait_written(Offset(0), timeout=DEADLINE_S))
    await asyncio.sleep(0)
    assert not first.done()
    await setting.write(b"a")
    await asyncio.gather(first, second)
    assert (replica.applied, asked) == (0, [])


async def test_it_goes_on_where_it_was(setting: ReplicaSetting, replica: Replica) -> None:
    await replica.wait_applied(await setting.write(b"a"), timeout=DEADLINE_S)
    digest = replica.index.digest()
    await replica.close()
    again = await setting.open()
    assert (again.applied, again.state, again.index.digest()) == (0, "ready", digest)
    await again.close()


async def test_one_that_is_cancelled_while_opening_leaves_nothing_open(
    setting: ReplicaSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, may_go = threading.Event(), threading.Event()
    queued = asyncio.Event()
    inner = setting.applier.run

    async def run(work: Callable[[], T]) -> T:
        queued.set()  # `inner` queues the work in this same step of the loop
        return await inner(work)

    def hold() -> None:
        inside.set()
        may_go.wait(patience_s(DEADLINE_S))

    held = asyncio.ensure_future(setting.applier.run(hold))
    try:
        await asyncio.to_thread(inside.wait, DEADLINE_S)
        monkeypatch.setattr(setting.applier, "run", run)
        opening = asyncio.ensure_future(setting.open())
        async with within(DEADLINE_S):
            await queued.wait()
        for _ in range(2):
            opening.cancel()
            await asyncio.wait([opening], timeout=0.01)
        assert not opening.done(), "the applier will still open it"
    finally:
        may_go.set()
    await held
    with pytest.raises(asyncio.CancelledError):
        await opening
    again = await setting.open()
    assert again.state == "ready"
    await again.close()


async def test_closing_tells_those_who_wait(
    setting: ReplicaSetting, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldIndex(replica, monkeypatch)
    last = await setting.write(b"a")
    waiting = asyncio.ensure_future(replica.wait_applied(last, timeout=DEADLINE_S))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(replica.close())
    with pytest.raises(ShuttingDown, match="flights/0 is closing"):
        await waiting
    held.release()
    await closing
    with pytest.raises(ShuttingDown):
        await replica.wait_applied(last, timeout=1)
    await replica.close()
    assert replica.state == "closed"


async def test_closing_with_a_reason(replica: Replica) -> None:
    await replica.close(TableNotFound("flights was dropped"))
    with pytest.raises(TableNotFound, match="dropped"):
        await replica.wait_ready()
    with pytest.raises(TableNotFound, match="dropped"), replica.reading():
        pass


async def test_an_index_is_closed_under_no_reader(setting: ReplicaSetting, replica: Replica) -> None:
    """LMDB's environment must not go away while another thread reads in it: that would end the process."""
    await replica.wait_applied(await setting.write(b"a"), timeout=DEADLINE_S)
    inside, may_leave = threading.Event(), threading.Event()

    def read() -> bytes | None:
        with replica.reading() as index:
            inside.set()
            may_leave.wait(patience_s(DEADLINE_S))
            return index.get_value(b"a")

    reading = asyncio.ensure_future(asyncio.to_thread(read))
    await asyncio.to_thread(inside.wait, DEADLINE_S)
    closing = asyncio.ensure_future(replica.close())
    done, _ = await asyncio.wait({closing}, timeout=0.05)
    assert not done
    may_leave.set()
    assert await reading == b"v"
    await closing
    with pytest.raises(ShuttingDown), replica.reading():
        pass


async def test_a_dropped_table_is_no_trouble(
    setting: ReplicaSetting, replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    await setting.log.delete_topic(setting.topic.id)
    async with within(DEADLINE_S):
        while replica.state != "stopped":  # noqa: ASYNC110 - nobody waits for this but the test
            await asyncio.sleep(0)
    assert isinstance(replica.failure, TableNotFound)
    assert "ERROR" not in caplog.text


async def test_what_no_table_can_hold_is_reported_and_counted(
    setting: ReplicaSetting, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write such records; a log of ours alone refuses them, so one is put in below the replica."""
    now_s = 0.0
    opened = await setting.open(clock=lambda: now_s)
    void = encode_batch(Columns([b""], [b"it has no key"], [int(Operation.VOID)]))
    inner = opened.index.fold_in

    def fold_in(batches: Sequence[Batch]) -> object:
        header = batches[0].header
        stamped = stamp_batch(void, base_offset=header.base_offset, timestamp_ms=header.timestamp_ms, unsynced=0)
        return inner([decode_batch(stamped)])

    monkeypatch.setattr(opened.index, "fold_in", fold_in)
    for number in range(4):
        now_s = 10.0 if number == 3 else float(number)
        await opened.wait_applied(await setting.write(b"k"), timeout=DEADLINE_S)
    assert opened.void == opened.index.statistics().void == 4
    warnings = [each.getMessage() for each in caplog.records if "no table can hold" in each.getMessage()]
    assert [message.partition(", which")[0] for message in warnings] == [
        "flights/0: no table can hold 1 of the records at offsets 0 to 0",
        "flights/0: no table can hold 3 of the records at offsets 1 to 3",
    ]
    await opened.close()
    again = await setting.open()
    assert again.void == 4
    await again.close()
