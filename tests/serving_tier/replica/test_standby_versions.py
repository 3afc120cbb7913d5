"""Standby versions of a replica: they stay level with the live one, are given up, closed and dropped."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from kit.deadlines import patience_s, until, within
from kit.index.one_replica import replica_setting
from kit.index.version_setting import DEADLINE_S, ZERO, VersionSetting, applied
from kit.log.held_log import HeldLog
from kit.log.stored_log import put

from log_tier.model.errors import (
    DiskFull,
    DuramenError,
    IndexDamaged,
    InvalidRequest,
    OffsetTrimmed,
    ShuttingDown,
    TokenAhead,
)
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.log import Log
from log_tier.model.record import Condition
from serving_tier.index.index import IndexLimits
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.replica import Replica
from serving_tier.replica.standby import StandbyVersions
from serving_tier.replica.version_folders import ReplicaFolder


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[VersionSetting]:
    async with replica_setting(tmp_path) as made:
        yield VersionSetting(made.log, made.topic, made.applier, made.folder)


async def test_what_was_staged_is_there_after_a_restart(setting: VersionSetting) -> None:
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await setting.stage(replica, 2, {b"a": b"x"}, base=base)
    last = await setting.write(put(b"b", b"2"))
    async with setting.replica("a") as replica:
        await replica.versions.wait_level(2)
        await applied(replica, await setting.swap(2))
        assert replica.index.get_value(b"b") == b"2"
    async with setting.replica("a") as replica:
        assert (replica.index.version, replica.applied) == (2, last + 1)
        await replica.versions.wait_level(1)
        await applied(replica, await setting.swap(1))
        assert replica.index.get_value(b"a") == b"1"


async def test_the_live_version_is_gone(setting: VersionSetting) -> None:
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await setting.stage(replica, 2, {b"a": b"x"}, base=base)
        await applied(replica, barrier := await setting.swap(2))
        await until(lambda: all(index.applied == barrier for index in replica.versions.indexes()))
        gone = replica.versions.folder.version(2)
    shutil.rmtree(gone)
    with pytest.raises(IndexDamaged, match="holds version 1 of its table, and version 2 is live since offset 1"):
        async with setting.replica("a"):
            pass


async def test_a_full_disk_loses_the_version_and_nothing_else(
    setting: VersionSetting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> object:
        raise DiskFull("the index cannot grow")

    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await setting.stage(replica, 2, {b"a": b"x"}, base=base)
        monkeypatch.setattr(replica.versions.level[2], "fold_in", full)
        await applied(replica, await setting.write(put(b"b", b"2")))
        await until(lambda: 2 in replica.versions.lost)
        with pytest.raises(DiskFull):
            await replica.versions.wait_level(2)
        assert (replica.state, replica.index.get_value(b"b")) == ("ready", b"2")
        assert "version 2 is given up" in caplog.text
        await replica.versions.add(2)
        await applied(replica, await setting.swap(2))
        assert replica.index.get_value(b"b") == b"2"


async def test_a_version_that_is_ahead_of_a_replica_that_lags(setting: VersionSetting) -> None:
    """A table that is cleared gets an empty version at the log's end, wherever its replicas are."""
    held = HeldLog(setting.log)
    folder = ReplicaFolder(setting.folder / "a" / "0", setting.topic.partition(ZERO))
    replica = await Replica.open(setting.topic, folder, log=cast("Log", held), applier=setting.applier)
    held.hold_reads()
    base = await setting.write(put(b"a", b"1"), put(b"b", b"1"))
    await asyncio.to_thread(setting.build, replica.versions.folder.version(2), {b"a": b"x"}, base=base)
    adding = asyncio.ensure_future(replica.versions.add(2))
    await until(lambda: 2 in replica.versions.here())
    assert (replica.applied, adding.done()) == (NOTHING, False)
    held.release_reads()
    await adding
    await applied(replica, await setting.swap(2))
    assert replica.index.get_value(b"a") == b"x"
    assert replica.index.get_value(b"b") is None
    await replica.close()


async def test_a_version_that_is_ahead_of_the_log(setting: VersionSetting) -> None:
    async with setting.replica("a") as replica:
        last = await setting.write(put(b"a", b"1"))
        with pytest.raises(TokenAhead):
            await setting.stage(replica, 2, {b"a": b"x"}, base=Offset(last + 1))
        await until(lambda: 2 in replica.versions.lost)
        assert replica.state == "ready"


async def test_verdicts_that_are_forgotten(setting: VersionSetting, monkeypatch: pytest.MonkeyPatch) -> None:
    async with setting.replica("a") as replica:
        replica.index._limits = IndexLimits(verdicts=2)
        base = await setting.write(put(b"a", b"1"))
        for _ in range(4):
            last = await setting.write(put(b"a", b"2", condition=Condition.ABSENT))
        await applied(replica, last)
        with pytest.raises(OffsetTrimmed, match="which records were rejected is known from 3 on: build the version"):
            await setting.stage(replica, 2, {b"a": b"x"}, base=base)
        assert replica.state == "ready"


async def test_a_long_read_goes_on_in_its_version(setting: VersionSetting) -> None:
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await applied(replica, base)
        await setting.stage(replica, 2, {b"a": b"x"}, base=base)
        with replica.reading() as index:
            await applied(replica, barrier := await setting.swap(2))
            await until(lambda: index.applied == barrier)
            assert index.get_value(b"a") == b"1"
            dropping = asyncio.ensure_future(replica.versions.drop(1, ShuttingDown("retention")))
            await until(lambda: 1 not in replica.versions.here())
            assert index.get_value(b"a") == b"1", "it stays open under a reader"
            assert not dropping.done()
        await dropping
        assert len(replica.index.readers) == 0


@pytest.mark.parametrize("waits", ["for level", "to discard"])
async def test_the_files_are_closed_before_anybody_may_remove_them(
    setting: VersionSetting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, waits: str
) -> None:
    """A version that cannot catch up is closed in the applier's thread, where closing writes next to its files."""
    closing, may_close = threading.Event(), threading.Event()
    inner = LmdbIndex.close

    def close(self: LmdbIndex, *, clean: bool = True) -> None:
        if self.version == 2:
            closing.set()
            may_close.wait(patience_s(DEADLINE_S))
        inner(self, clean=clean)

    def fails(*_: object) -> None:
        raise OffsetTrimmed("the log does not go back so far")

    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await applied(replica, await setting.write(put(b"a", b"2")))
        folder = replica.versions.folder.version(2)
        await asyncio.to_thread(setting.build, folder, {b"a": b"x"}, base=base)
        monkeypatch.setattr(LmdbIndex, "close", close)
        monkeypatch.setattr(StandbyVersions, "_follow", fails)
        adding = asyncio.ensure_future(replica.versions.add(2))
        await asyncio.to_thread(closing.wait, DEADLINE_S)
        waiting = (
            adding if waits == "for level" else asyncio.ensure_future(replica.versions.drop(2, ShuttingDown("deleted")))
        )
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done, "its files are in use"
        may_close.set()
        await asyncio.wait([waiting, adding])
        await asyncio.to_thread(shutil.rmtree, folder)
        with pytest.raises(OffsetTrimmed):
            await adding
        await until(lambda: not [task for task in asyncio.all_tasks() if "version 2" in task.get_name()])
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_a_version_that_ends_by_a_bug_keeps_nobody_waiting(
    setting: VersionSetting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug(*_: object) -> None:
        raise RuntimeError("a bug")

    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await applied(replica, await setting.write(put(b"a", b"2")))
        monkeypatch.setattr(StandbyVersions, "_follow", bug)
        with pytest.raises(DuramenError, match=r"version 2 of flights/0 ended at 0 by a bug: RuntimeError\('a bug'\)"):
            async with within(DEADLINE_S):
                await setting.stage(replica, 2, {b"a": b"x"}, base=base)
        await until(lambda: "version 2 of flights/0 ended by a bug" in caplog.text)
        assert replica.state == "ready"


async def test_one_whose_opening_is_cancelled_is_not_left_open(
    setting: VersionSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is removed, or opened again, as soon as the caller has ended."""
    opening, may_open = threading.Event(), threading.Event()
    inner = ReplicaFolder.open
    opened: list[LmdbIndex] = []

    def slowly(self: ReplicaFolder, path: Path | None = None) -> LmdbIndex:
        opening.set()
        may_open.wait(patience_s(DEADLINE_S))
        opened.append(inner(self, path))
        return opened[-1]

    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        folder = replica.versions.folder.version(2)
        await asyncio.to_thread(setting.build, folder, {b"a": b"x"}, base=base)
        monkeypatch.setattr(ReplicaFolder, "open", slowly)
        adding = asyncio.ensure_future(replica.versions.add(2))
        assert await asyncio.to_thread(opening.wait, patience_s(DEADLINE_S))
        for _ in range(2):
            adding.cancel()
            await asyncio.wait([adding], timeout=0.01)
        may_open.set()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert len(opened) == 1
        with pytest.raises(ShuttingDown, match="the index is closed"):
            opened[0].become(2)
        monkeypatch.undo()
        await replica.versions.add(2)


async def test_a_table_that_is_cleared_again_and_again_keeps_no_more_of_its_versions(setting: VersionSetting) -> None:
    async with setting.replica("a") as replica:
        versions = replica.versions
        for number in range(2, 1000):
            await versions.drop(number, InvalidRequest(f"version {number} was deleted"))
        assert len(versions.lost) < 100
        with pytest.raises(InvalidRequest, match="version 999 was deleted"):
            await versions.wait_level(999)


@pytest.mark.parametrize("turns", range(8))
async def test_a_version_that_is_added_while_the_node_closes_leaves_no_index_open(
    setting: VersionSetting, turns: int
) -> None:
    """The staging of a node adds versions until it is told, and the applier goes with the node."""
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        folder = replica.versions.folder.version(2)
        await asyncio.to_thread(setting.build, folder, {b"a": b"x"}, base=base)
        await applied(replica, base)
        closing = asyncio.create_task(replica.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        adding = asyncio.create_task(replica.versions.add(2))
        await closing
        await setting.applier.stop()
        with pytest.raises(ShuttingDown):
            async with within(DEADLINE_S):
                await adding
        LmdbIndex.open(folder, partition=setting.topic.partition(ZERO)).close()


async def test_nothing_is_opened_for_a_replica_that_is_closed(
    setting: VersionSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folders are somebody else's by then: another replica's of this partition, or who removes them."""
    async with setting.replica("a") as replica:
        folder = replica.versions.folder.version(2)
        await asyncio.to_thread(setting.build, folder, {b"a": b"x"}, base=await setting.write(put(b"a", b"1")))
    opened: list[Path | None] = []
    inner = ReplicaFolder.open

    def noted(self: ReplicaFolder, path: Path | None = None) -> LmdbIndex:
        opened.append(path)
        return inner(self, path)

    monkeypatch.setattr(ReplicaFolder, "open", noted)
    with pytest.raises(ShuttingDown):
        await replica.versions.add(2)
    assert opened == []
