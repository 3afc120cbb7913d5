"""Snapshots of a table whose versions are swapped: a copy is of the version that is live at its offset."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.deadlines import until
from kit.index.one_replica import replica_setting
from kit.index.version_setting import VersionSetting, applied
from kit.log.stored_log import put

from log_tier.model.barrier import ORIGINAL, LiveVersion
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.snapshots import SnapshotStore, install_snapshot, take_snapshot
from serving_tier.snapshots.contents import Contents, read_contents


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[VersionSetting]:
    async with replica_setting(tmp_path) as made:
        yield VersionSetting(made.log, made.topic, made.applier, made.folder)


async def test_what_a_copy_says_of_its_version(setting: VersionSetting, store: SnapshotStore, tmp_path: Path) -> None:
    described: list[Contents] = []
    async with setting.replica("a") as replica:

        async def take() -> None:
            work = tmp_path / "work"
            await take_snapshot(
                replica.reading, store, table_name="flights", work_folder=work, described=described.append
            )

        base = await setting.write(put(b"k", b"1"))
        await setting.stage(replica, 2, {b"k": b"2"}, base=base)
        await take()
        barrier = await setting.swap(2, job=5)
        await applied(replica, barrier)
        await take()
    before, after = described
    assert (before.version, before.live) == (1, ORIGINAL)
    assert (after.version, after.live) == (2, LiveVersion(2, barrier, 5))


async def test_a_version_that_stops_being_live_before_its_copy_begins(
    setting: VersionSetting, store: SnapshotStore, tmp_path: Path
) -> None:
    """The old index has passed the barrier too by then: a copy of it could be served by nobody."""
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"k", b"1"))
        await setting.stage(replica, 2, {b"k": b"2"}, base=base)
        old = replica.index
        barrier = await setting.swap(2)
        await applied(replica, barrier)
        # The new version is live before the old one follows it over the barrier.
        await until(lambda: replica.index is not old and old.applied >= barrier)
        turns = iter((old, replica.index))

        @contextmanager
        def reading() -> Iterator[LmdbIndex]:
            yield next(turns)

        manifest = await take_snapshot(reading, store, table_name="flights", work_folder=tmp_path / "work")
        folder = tmp_path / "restored"
        await install_snapshot(store, manifest.path, folder, partition=replica.id)
        contents = read_contents(folder)
        assert (contents.version, contents.live.version) == (2, 2)
        assert next(turns, None) is None
