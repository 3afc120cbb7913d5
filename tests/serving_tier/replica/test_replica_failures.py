"""What a replica does about a damaged index, a damaged or trimmed log, a full disk, a bug."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from kit.deadlines import until, within
from kit.index.one_replica import ReplicaSetting

from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.batch import Batch
from log_tier.model.errors import (
    DiskFailed,
    DiskFull,
    DuramenError,
    FolderReadOnly,
    IndexDamaged,
    LogDamaged,
    OffsetTrimmed,
    ReplicaBehind,
)
from log_tier.model.identifiers import Offset, Partition
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica import apply as applying
from serving_tier.replica.observer import ReplicaEvent
from serving_tier.replica.replica import Replica
from serving_tier.replica.version_folders import ReplicaFolder

ZERO = Partition(0)


DEADLINE_S = 20


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


async def test_an_index_ahead_of_its_log_is_refused_and_kept(setting: ReplicaSetting) -> None:
    """The log lost acknowledged records: going on would give their offsets to others."""
    last = await setting.write(b"a", b"b", b"c")
    shorter = await setting.log.create_topic("shorter", partitions=1)
    folder = setting.folder / "1"
    index = LmdbIndex.open(folder, partition=shorter.partition(ZERO))
    async for chunk in setting.log.read(setting.topic.partition(ZERO), Offset(0), follow=False):
        index.apply(chunk.data)
    index.close()
    for _ in range(2):
        with pytest.raises(LogDamaged, match=r"has applied 2, the log ends at -1: 3 acknowledged records are gone"):
            await Replica.open(
                shorter, ReplicaFolder(folder, shorter.partition(ZERO)), log=setting.log, applier=setting.applier
            )
    kept = LmdbIndex.open(folder, partition=shorter.partition(ZERO))
    assert (kept.applied, kept.count()) == (last, 3)
    kept.close()


async def test_a_disk_that_fails_once_costs_no_index(setting: ReplicaSetting) -> None:
    """What the disk does not give may be sound: it is refused by name, and opened again."""
    last = await setting.write(b"a", b"b")
    replica = await setting.open()
    await replica.wait_applied(last, timeout=DEADLINE_S)
    await replica.close()
    marker = setting.folder / "0" / "index.json"
    aside, index = marker.with_name("aside"), (setting.folder / "0" / "data.mdb").stat().st_ino
    marker.rename(aside)
    marker.symlink_to("/proc/self/mem")  # a read at 0 fails with EIO
    with pytest.raises(DiskFailed, match=r"Input/output error.*folded from the log"):
        await setting.open()
    marker.unlink()
    aside.rename(marker)
    replica = await setting.open()
    assert (replica.applied, replica.index.count()) == (last, 2)
    assert (setting.folder / "0" / "data.mdb").stat().st_ino == index
    await replica.close()


async def test_a_log_trimmed_beyond_the_index_is_refused(tmp_path: Path, setting: ReplicaSetting) -> None:
    async with await EmbeddedLog.open(tmp_path / "small", settings=EngineSettings(segment_bytes=1024)) as log:
        topic = await log.create_topic("flights", partitions=1)
        small = ReplicaSetting(log, topic, setting.applier, setting.folder)
        for number in range(100):
            await small.write(b"k%d" % number, value=b"x" * 50)
        earliest = await log.trim(topic.partition(ZERO), Offset(90))
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
    """Hears of damage, as the replica's host does."""

    def __init__(self, replica: Replica) -> None:
        self.heard: list[Replica] = []
        self.reported = asyncio.Event()
        replica.owner = self

    def __call__(self, replica: Replica, event: ReplicaEvent) -> None:
        assert event == "damaged"
        self.heard.append(replica)
        self.reported.set()


async def test_damage_met_while_applying_is_reported_once(
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
        await damage.reported.wait()
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
    await until(lambda: "the index cannot grow" in caplog.text)
    with pytest.raises(ReplicaBehind, match="It applies nothing now: the index cannot grow"):
        await replica.wait_applied(before, timeout=0.05)
    assert replica.progress.why_behind() == "applied -1 of 0: the index cannot grow"
    assert replica.state == "ready"
    await until(lambda: len(tries) > 3)
    full.clear()
    await replica.wait_applied(before, timeout=DEADLINE_S)
    assert replica.progress.obstacle == ""
    assert replica.index.get_value(b"a") == b"v"
    lines = [record.getMessage() for record in caplog.records if record.name == "serving_tier.replica.apply"]
    assert len(lines) == 1 + (len(tries) - 2) // applying._TRIES_A_LINE, (len(tries), lines)


@pytest.mark.parametrize(("number", "kind"), [(28, DiskFull), (30, FolderReadOnly), (13, FolderReadOnly)])
async def test_a_folder_that_cannot_be_made(
    setting: ReplicaSetting, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[DuramenError]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "what the system says")

    monkeypatch.setattr(LmdbIndex, "open", refuse)
    with pytest.raises(kind, match="what the system says"):
        await setting.open()
