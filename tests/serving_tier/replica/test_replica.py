"""A replica over a real log: it follows, it waits, it refuses to answer early, and its index may be thrown away."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from kit.deadlines import until, within
from kit.index.one_replica import ReplicaSetting, replica_setting

from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.batch import Batch, Columns, decode_batch, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import (
    DiskFull,
    DuramenError,
    FolderReadOnly,
    IndexDamaged,
    LogDamaged,
    OffsetTrimmed,
    ReplicaBehind,
    ShuttingDown,
    TableNotFound,
    TokenAhead,
)
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.record import Operation
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica import apply as applying
from serving_tier.replica.observer import ReplicaEvent
from serving_tier.replica.replica import Replica
from serving_tier.replica.version_folders import ReplicaFolder

ZERO = Partition(0)
DEADLINE_S = 20


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[ReplicaSetting]:
    async with replica_setting(tmp_path) as made:
        yield made


@pytest.fixture
async def replica(setting: ReplicaSetting) -> AsyncIterator[Replica]:
    opened = await setting.open()
    yield opened
    opened.check()
    await opened.close()
    opened.check()


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


async def test_it_goes_on_where_it_was(setting: ReplicaSetting, replica: Replica) -> None:
    await replica.wait_applied(await setting.write(b"a"), timeout=DEADLINE_S)
    digest = replica.index.digest()
    await replica.close()
    again = await setting.open()
    assert (again.applied, again.state, again.index.digest()) == (0, "ready", digest)
    await again.close()


def cut_data(folder: Path) -> None:
    with open(folder / "data.mdb", "r+b") as file:
        file.truncate(5000)


def garble_meta_pages(folder: Path) -> None:
    with open(folder / "data.mdb", "r+b") as file:
        file.write(b"\xa5" * 9000)


def put_a_file_in_its_place(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_bytes(b"no folder at all")


@pytest.mark.parametrize(
    "damage",
    [
        shutil.rmtree,
        cut_data,
        garble_meta_pages,
        put_a_file_in_its_place,
        lambda folder: (folder / "index.json").unlink(),
        lambda folder: (folder / "index.json").write_text("{}"),
        lambda folder: (folder / "data.mdb").unlink(),
        lambda folder: (folder / "data.mdb").write_bytes(b"SQLite format 3\x00" * 500),
    ],
)
async def test_an_index_that_cannot_be_trusted_is_built_again(setting: ReplicaSetting, damage: object) -> None:
    first = await setting.open()
    for number in range(20):
        last = await setting.write(b"k%d" % (number % 7), b"n%d" % number, value=b"%d" % number)
    await first.wait_applied(last, timeout=DEADLINE_S)
    digest = first.index.digest()
    await first.close()
    damage(setting.folder / "0")  # type: ignore[operator]
    again = await setting.open()
    await again.wait_applied(last, timeout=DEADLINE_S)
    assert (again.applied, again.index.digest()) == (last, digest)
    await again.close()


async def test_one_that_is_cancelled_while_opening_leaves_nothing_open(setting: ReplicaSetting) -> None:
    inside, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        may_go.wait(DEADLINE_S)

    held = asyncio.ensure_future(setting.applier.run(hold))
    try:
        await asyncio.to_thread(inside.wait, DEADLINE_S)
        opening = asyncio.ensure_future(setting.open())
        await until(lambda: bool(setting.applier._jobs))
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


async def test_an_index_ahead_of_its_log_is_refused_and_kept(setting: ReplicaSetting) -> None:
    """The log lost acknowledged records: going on would give their offsets to others."""
    last = await setting.write(b"a", b"b", b"c")
    shorter = await setting.log.create_topic("shorter", partitions=1)
    folder = setting.folder / "1"
    index = LmdbIndex.open(folder, table_id=shorter.id, partition=ZERO)
    async for chunk in setting.log.read(setting.topic.id, ZERO, Offset(0), follow=False):
        index.apply(chunk.data)
    index.close()
    for _ in range(2):
        with pytest.raises(LogDamaged, match=r"has applied 2, the log ends at -1: 3 acknowledged records are gone"):
            await Replica.open(
                shorter, ReplicaFolder(folder, shorter.id, ZERO), log=setting.log, applier=setting.applier
            )
    kept = LmdbIndex.open(folder, table_id=shorter.id, partition=ZERO)
    assert (kept.applied, kept.count()) == (last, 3)
    kept.close()


async def test_a_log_trimmed_beyond_the_index_is_refused(tmp_path: Path, setting: ReplicaSetting) -> None:
    async with await EmbeddedLog.open(tmp_path / "small", settings=EngineSettings(segment_bytes=1024)) as log:
        topic = await log.create_topic("flights", partitions=1)
        small = ReplicaSetting(log, topic, setting.applier, setting.folder)
        for number in range(100):
            await small.write(b"k%d" % number, value=b"x" * 50)
        earliest = await log.trim(topic.id, ZERO, Offset(90))
        assert earliest > 0
        with pytest.raises(OffsetTrimmed, match=f"has applied -1, the log begins at {earliest}") as caught:
            await small.open()
        assert caught.value.fields == {"partition": 0, "asked": 0, "earliest": earliest}


async def test_an_error_while_applying_stops_it_loudly(
    setting: ReplicaSetting, replica: Replica, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(batches: object) -> object:
        raise LogDamaged("a checksum does not hold", offset=0)

    monkeypatch.setattr(replica.index, "fold_in", fail)
    last = await setting.write(b"a")
    for _ in range(2):
        with pytest.raises(LogDamaged, match="a checksum does not hold") as caught:
            await replica.wait_applied(last, timeout=DEADLINE_S)
        assert caught.value.fields == {"offset": 0}
    assert replica.state == "stopped"
    assert replica.failure is not None
    with pytest.raises(LogDamaged):
        await replica.wait_ready()
    assert "replica flights/0 stopped at -1" in caplog.text


async def test_a_bug_while_applying_stops_it_too(
    setting: ReplicaSetting, replica: Replica, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replica.index, "fold_in", lambda batches: batches["no"])
    last = await setting.write(b"a")
    with pytest.raises(DuramenError, match="stopped at -1 by a bug: TypeError"):
        await replica.wait_applied(last, timeout=DEADLINE_S)
    assert "by a bug" in caplog.text


class Damage:
    """Hears of damage, as whoever hosts the replica does."""

    def __init__(self, replica: Replica) -> None:
        self.heard: list[Replica] = []
        self.told = asyncio.Event()
        replica.owner = self

    def __call__(self, replica: Replica, event: ReplicaEvent) -> None:
        assert event == "damaged"
        self.heard.append(replica)
        self.told.set()


async def test_damage_met_while_applying_is_told_once(
    setting: ReplicaSetting, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(batches: object) -> object:
        raise IndexDamaged("page 7 is not what it was")

    damage = Damage(replica)
    monkeypatch.setattr(replica.index, "fold_in", fail)
    last = await setting.write(b"a")
    with pytest.raises(IndexDamaged, match="page 7"):
        await replica.wait_applied(last, timeout=DEADLINE_S)
    replica.damaged(IndexDamaged("again"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (damage.heard, replica.state) == ([replica], "stopped")


async def test_damage_met_by_a_read_in_a_thread_stops_the_replica(
    setting: ReplicaSetting, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    await replica.wait_applied(await setting.write(b"a"), timeout=DEADLINE_S)
    damage = Damage(replica)
    with replica.index._env.begin(replica.index._data, write=True) as txn:
        txn.put(b"a", bytes(7) + b"\x40" + b"v")  # flags that nothing writes

    def read() -> None:
        with replica.reading() as index:
            index.scan(b"", None)

    with pytest.raises(IndexDamaged, match="flags 01000000"):
        await asyncio.to_thread(read)
    async with within(DEADLINE_S):
        await damage.told.wait()
    assert (damage.heard, replica.state) == ([replica], "stopped")
    assert isinstance(replica.failure, IndexDamaged)
    last = await setting.write(b"b")
    with pytest.raises(IndexDamaged):
        await replica.wait_applied(last, timeout=DEADLINE_S)
    with pytest.raises(IndexDamaged):
        await replica.at_offset(last, timeout=DEADLINE_S)
    await replica.close()
    assert replica.state == "closed"


async def test_a_full_disk_pauses_it(
    setting: ReplicaSetting, replica: Replica, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(applying, "_NO_ROOM_PAUSE_S", 0.001)
    inner, full = replica.index.fold_in, threading.Event()
    tries: list[int] = []
    full.set()

    def fold_in(batches: Sequence[Batch]) -> object:
        tries.append(1)
        if full.is_set():
            raise DiskFull("the index cannot grow")
        return inner(batches)

    monkeypatch.setattr(replica.index, "fold_in", fold_in)
    before = await setting.write(b"a")
    with pytest.raises(ReplicaBehind):
        await replica.wait_applied(before, timeout=0.05)
    assert replica.state == "ready"
    assert len(tries) > 1
    full.clear()
    await replica.wait_applied(before, timeout=DEADLINE_S)
    assert replica.index.get_value(b"a") == b"v"
    assert "the index cannot grow" in caplog.text


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
            may_leave.wait(DEADLINE_S)
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


@pytest.mark.parametrize(("number", "kind"), [(28, DiskFull), (30, FolderReadOnly), (13, FolderReadOnly)])
async def test_a_folder_that_cannot_be_made(
    setting: ReplicaSetting, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[DuramenError]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "what the system says")

    monkeypatch.setattr(LmdbIndex, "open", refuse)
    with pytest.raises(kind, match="what the system says"):
        await setting.open()


async def test_what_no_table_can_hold_is_told_and_counted(
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
    told = [each.getMessage() for each in caplog.records if "no table can hold" in each.getMessage()]
    assert [message.partition(", which")[0] for message in told] == [
        "flights/0: no table can hold 1 of the records at offsets 0 to 0",
        "flights/0: no table can hold 3 of the records at offsets 1 to 3",
    ]
    await opened.close()
    again = await setting.open()
    assert again.void == 4
    await again.close()
