from __future__ import annotations

import asyncio
import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s, within
from kit.index.live_index import LiveIndex, digest_of_folder, files_below, flip
from kit.log.stored_log import PARTITION, TABLE, put

from log_tier.concurrency.threads import Stop
from log_tier.model.errors import DiskFull, IndexDamaged, SnapshotDamaged, SnapshotStoreUnavailable
from log_tier.model.identifiers import NOTHING, PartitionId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.snapshots import SnapshotStore, install_snapshot, take_snapshot

DEADLINE_S = 60


async def test_a_snapshot_says_what_it_holds(live: LiveIndex, store: SnapshotStore, tmp_path: Path) -> None:
    manifest = await take_snapshot(
        live.reading, store, table_name="flights", work_folder=tmp_path / "work", digest=True, clock_ms=lambda: 77
    )
    statistics = live.index.statistics()
    assert (manifest.table, manifest.partition, manifest.table_name) == (TABLE, PARTITION, "flights")
    assert (manifest.offset, manifest.log_time_ms) == (live.index.applied, live.index.log_time_ms)
    assert (manifest.keys, manifest.created_ms, manifest.index_version) == (statistics.entries, 77, 3)
    assert manifest.digest == live.index.digest()
    assert [file.name for file in manifest.files] == ["data.mdb", "index.json"]
    assert files_below(tmp_path / "store") == [
        f"{manifest.path}/{name}" for name in ("data.mdb", "index.json", "manifest.json")
    ]
    assert list((tmp_path / "work").iterdir()) == []
    assert live.readers == 0


async def test_an_empty_index_can_be_taken(store: SnapshotStore, tmp_path: Path) -> None:
    live = LiveIndex(tmp_path / "index")
    manifest = await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
    assert (manifest.offset, manifest.keys) == (NOTHING, 0)
    assert [one.offset for one in await store.snapshots(PartitionId(TABLE, PARTITION))] == [NOTHING]
    await install_snapshot(store, manifest.path, tmp_path / "new", partition=PartitionId(TABLE, PARTITION))
    assert digest_of_folder(tmp_path / "new") == (NOTHING, live.index.digest())
    live.close()


async def test_a_snapshot_has_one_offset_while_writes_go_on(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path
) -> None:
    """Offset and content come from one transaction: the content is the fold of the log up to that very offset."""
    stop = threading.Event()
    offsets: list[int] = []

    def write() -> None:
        while not stop.is_set():
            live.fill(40, a_batch=20)
            offsets.append(live.index.applied)

    writer = threading.Thread(target=write)
    writer.start()
    manifests = []
    try:
        async with within(DEADLINE_S):
            for _ in range(6):
                taken = await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
                manifests.append(taken)
    finally:
        stop.set()
        writer.join()
    assert len({manifest.offset for manifest in manifests}) > 1, "nothing was written meanwhile"
    for manifest in manifests:
        folder = tmp_path / manifest.id
        await install_snapshot(store, manifest.path, folder, partition=PartitionId(TABLE, PARTITION))
        assert digest_of_folder(folder) == (manifest.offset, live.digest_at(manifest.offset))


async def test_applies_and_the_event_loop_go_on_while_lmdb_copies(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is held up inside its transaction, and an apply passes it."""
    copying, may_go = threading.Event(), threading.Event()
    copy_to = LmdbIndex.copy_to

    def slow(index: LmdbIndex, file: int) -> None:
        with index._env.begin():
            copying.set()
            assert may_go.wait(patience_s(DEADLINE_S))
            copy_to(index, file)

    monkeypatch.setattr(LmdbIndex, "copy_to", slow)
    taking = asyncio.ensure_future(
        take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
    )
    await asyncio.to_thread(copying.wait, DEADLINE_S)
    live.index.apply(live.log.append(put(b"late", b"yes")))
    assert live.index.get_value(b"late") == b"yes"
    assert live.readers == 1, "the index must stay open while it is copied"
    may_go.set()
    assert (await taking).offset == live.index.applied


@pytest.mark.parametrize("phase", ["copying", "storing", "verifying"])
async def test_cancelled_it_leaves_nothing(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving_tier.snapshots.snapshot_store.linked", lambda source, target: False)
    loop = asyncio.get_running_loop()

    def cancel_at(now: str, done: int, total: int) -> None:
        if now == phase:
            loop.call_soon_threadsafe(taking.cancel)
            # The next step must meet the wish to stop.
            if done:
                stopping.wait(patience_s(DEADLINE_S))

    stopping = threading.Event()
    ask = Stop.set

    def asked(stop: Stop) -> None:
        ask(stop)
        stopping.set()

    monkeypatch.setattr(Stop, "set", asked)
    taking = asyncio.ensure_future(
        take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work", progress=cancel_at)
    )
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert live.readers == 0
    assert list((tmp_path / "work").iterdir()) == [] if (tmp_path / "work").exists() else True
    assert not (tmp_path / "store").exists() or files_below(tmp_path / "store") == []


async def test_what_the_store_gives_back_is_compared(
    live: LiveIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that loses a bit is found out before the snapshot is called one, and the snapshot is removed."""

    class Forgetful(SnapshotStore):
        async def put(self, folder, manifest, *, progress=None):  # type: ignore[no-untyped-def]
            await super().put(folder, manifest, progress=progress)
            flip(tmp_path / "store" / manifest.path / "data.mdb", 20_000)

    store = Forgetful.open(tmp_path / "store")
    with pytest.raises(SnapshotDamaged, match=r"data\.mdb: bytes 0 to .* have the checksum"):
        await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
    assert files_below(tmp_path / "store") == []


async def test_an_index_that_is_damaged_itself_does_not_become_a_snapshot(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_to = LmdbIndex.copy_to

    def copy_badly(index: LmdbIndex, file: int) -> None:
        copy_to(index, os.open(tmp_path / "copy", os.O_RDWR | os.O_CREAT))
        data = bytearray((tmp_path / "copy").read_bytes())
        data[5 * 4096 : 6 * 4096] = bytes(4096)
        with open(os.dup(file), "wb") as pipe:
            pipe.write(data)

    monkeypatch.setattr(LmdbIndex, "copy_to", copy_badly)
    with pytest.raises(SnapshotDamaged, match=f"the copy of {TABLE}/3 page 5 says that it is page 0"):
        await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
    assert list((tmp_path / "work").iterdir()) == []
    assert await store.snapshots() == []


async def test_a_store_that_is_away_costs_nothing_but_the_try(live: LiveIndex, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file stands in its place")
    store = SnapshotStore.open(tmp_path / "store")
    with pytest.raises(SnapshotStoreUnavailable, match="cannot be used"):
        await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
    assert list((tmp_path / "work").iterdir()) == []
    assert live.readers == 0


async def test_what_lmdb_says_about_the_index_comes_first(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LMDB stops in the middle: the copy is short, but that is not what is wrong."""

    def stop_half_way(index: LmdbIndex, file: int) -> None:
        os.write(file, bytes(100))
        raise IndexDamaged("page 7 cannot be followed")

    monkeypatch.setattr(LmdbIndex, "copy_to", stop_half_way)
    with pytest.raises(IndexDamaged, match="page 7 cannot be followed"):
        await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
    assert list((tmp_path / "work").iterdir()) == []


async def test_a_full_disk_is_named_and_ends_lmdbs_side_too(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.fill(40_000)  # more than a pipe takes: LMDB waits for its reader when that gives up

    def refuse(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("serving_tier.snapshots.take.begin_writing", refuse)
    async with within(DEADLINE_S):
        with pytest.raises(DiskFull, match="cannot be written: No space left on device: make room"):
            await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
    assert list((tmp_path / "work").iterdir()) == []
    assert live.readers == 0
    live.fill(10)


def open_descriptors() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing's own
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
    return {each for each in found if "pipe:" in each}


async def test_a_pipe_that_may_not_grow_is_as_good(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses larger pipes to a user who has many."""

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    before = open_descriptors()
    monkeypatch.setattr("serving_tier.snapshots.take.fcntl.fcntl", refuse)
    await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
    assert open_descriptors() == before
    assert len(await store.snapshots(PartitionId(TABLE, PARTITION))) == 1


async def test_a_process_that_gets_no_thread_keeps_no_pipe(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoThread(ThreadPoolExecutor):
        def submit(self, *_: object) -> Any:  # type: ignore[override]
            raise RuntimeError("can't start new thread")

    before = open_descriptors()
    monkeypatch.setattr("serving_tier.snapshots.take.ThreadPoolExecutor", NoThread)
    with pytest.raises(RuntimeError, match="new thread"):
        await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
    assert open_descriptors() == before
    assert list((tmp_path / "work").iterdir()) == []
    assert live.readers == 0
