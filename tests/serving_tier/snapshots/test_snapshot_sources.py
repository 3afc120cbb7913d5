from __future__ import annotations

import errno
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from kit.index.copy_peer import Peer, flip_data
from kit.index.live_index import LiveIndex, digest_of_folder, flip, stored_file
from kit.log.stored_log import PARTITION, TABLE

from log_tier.catalog.cluster_map import SnapshotEntry
from log_tier.model.errors import (
    Disconnected,
    DiskFailed,
    DiskFull,
    DuramenError,
    IndexDiverged,
    NotHosted,
    OffsetTrimmed,
    Overloaded,
    Unavailable,
)
from log_tier.model.identifiers import Offset
from log_tier.model.log import Bounds, Topic
from serving_tier.snapshots import SnapshotManifest, SnapshotStore, bootstrap, take_snapshot
from serving_tier.snapshots.peer_copy import CopySource
from serving_tier.snapshots.source_plan import Goal, Offered, plan_sources

TOPIC = Topic(TABLE, "flights", 8)


def bounds(earliest: int, latest: int) -> Bounds:
    return Bounds(Offset(earliest), Offset(latest))


def entry_of(manifest: SnapshotManifest) -> SnapshotEntry:
    return SnapshotEntry(
        id=manifest.id,
        table=manifest.table,
        partition=manifest.partition,
        offset=manifest.offset,
        log_time_ms=manifest.log_time_ms,
        keys=manifest.keys,
        bytes=manifest.bytes,
        path=manifest.path,
        node="n1",
    )


def entry(offset: int) -> SnapshotEntry:
    return SnapshotEntry(f"s{offset}", TABLE, PARTITION, Offset(offset), 0, 0, 0, "", "n1")


async def believed(_folder: Path, _name: str) -> None:
    """A log that cannot be compared with a copy."""


async def test_with_nothing_left_of_a_table_it_is_said_from_where_it_is_missing(tmp_path: Path) -> None:
    offered: Offered[CopySource] = Offered(bounds(6, 9), Offset(5))
    plan = plan_sources(offered, Goal())
    with pytest.raises(OffsetTrimmed, match="the table at 5: what was between is trimmed") as caught:
        await bootstrap(
            plan,
            offered,
            same_history=believed,
            store=None,
            topic=TOPIC,
            partition=TOPIC.partition(PARTITION),
            folder=tmp_path / "new" / "3",
        )
    assert caught.value.fields == {"partition": PARTITION, "asked": 5, "earliest": 6}


# --- one after the other


@pytest.fixture
async def snapshots(live: LiveIndex, store: SnapshotStore, tmp_path: Path) -> list[SnapshotEntry]:
    """Three of them, the oldest first."""
    entries = []
    for _ in range(3):
        manifest = await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
        entries.append(entry_of(manifest))
        live.fill(100)
    return entries


async def run(
    store: SnapshotStore | None,
    tmp_path: Path,
    snapshots: list[SnapshotEntry],
    peers: list[Peer],
    earliest: int,
    latest: int,
    wanted: str = "auto",
    same_history: Callable[[Path, str], Awaitable[None]] = believed,
    replay_max: int | None = None,
) -> str:
    offered: Offered[CopySource] = Offered(bounds(earliest, latest), snapshots=snapshots, peers=peers)
    return await bootstrap(
        plan_sources(offered, Goal(wanted=wanted)),
        offered,
        same_history=same_history,
        store=store,
        topic=TOPIC,
        partition=TOPIC.partition(PARTITION),
        folder=tmp_path / "new" / "3",
        replay_max=replay_max,
    )


async def test_a_long_log_is_not_folded_because_a_peer_is_busy(live: LiveIndex, tmp_path: Path) -> None:
    end = live.index.applied
    busy = Peer("n2", live, tmp_path, Overloaded("it gives 2 copies already", limit=2))
    with pytest.raises(Overloaded, match="it gives 2 copies already"):
        await run(None, tmp_path, [], [busy], 0, end, replay_max=end)
    assert await run(None, tmp_path, [], [busy], 0, end, replay_max=end + 1) == "log", "that is soon done"
    assert await run(None, tmp_path, [], [busy], 0, end) == "log"
    assert busy.asked == 3
    free = Peer("n3", live, tmp_path)
    assert await run(None, tmp_path, [], [busy, free], 0, end, replay_max=0) == f"peer n3 at {end}"
    away = Peer("n4", live, tmp_path, Disconnected("it is away"))
    assert await run(None, tmp_path / "other", [], [away], 0, end, replay_max=0) == "log"


async def test_the_newest_good_snapshot_is_used_and_the_bad_ones_are_logged_by_name(
    live: LiveIndex,
    store: SnapshotStore,
    snapshots: list[SnapshotEntry],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second, third = snapshots
    flip(tmp_path / "store" / third.path / "data.mdb", 12345)
    (tmp_path / "store" / second.path / "index.json").unlink()
    with caplog.at_level(logging.WARNING):
        found = await run(store, tmp_path, snapshots, [Peer("n2", live, tmp_path)], 0, live.index.applied)
    assert found == f"snapshot {first.id} at {first.offset}"
    assert digest_of_folder(tmp_path / "new" / "3") == (first.offset, live.digest_at(first.offset))
    said = [record.message for record in caplog.records]
    assert f"flights/3: snapshot {third.id} is not used" in said[0]
    assert f"{third.id}/data.mdb: bytes 0 to" in said[0]
    assert f"{second.id}/index.json is missing" in said[1]


async def test_a_copy_of_another_history_is_removed_and_the_next_one_is_used(
    live: LiveIndex, store: SnapshotStore, snapshots: list[SnapshotEntry], tmp_path: Path
) -> None:
    _, second, third = snapshots
    asked: list[tuple[str, Offset]] = []

    async def compared(folder: Path, name: str) -> None:
        asked.append((name, digest_of_folder(folder)[0]))
        if len(asked) == 1:
            raise IndexDiverged(f"{name} is of another log")

    found = await run(store, tmp_path, snapshots, [], 0, live.index.applied, same_history=compared)
    assert found == f"snapshot {second.id} at {second.offset}"
    assert asked == [
        (f"snapshot {third.id} of flights/3", third.offset),
        (f"snapshot {second.id} of flights/3", second.offset),
    ]

    async def refused(_folder: Path, name: str) -> None:
        raise IndexDiverged(f"{name} is of another log")

    peer = Peer("n2", live, tmp_path / "work")
    assert await run(store, tmp_path, snapshots, [peer], 0, live.index.applied, same_history=refused) == "log"
    assert not (tmp_path / "new" / "3").exists(), "nothing is left of the last copy that was refused"
    with pytest.raises(OffsetTrimmed, match=r"peer n2: the copy of flights/3 from peer n2 is of another log"):
        await run(store, tmp_path, [], [peer], 5, live.index.applied, same_history=refused)


async def test_a_peer_is_next_and_one_that_is_away_is_passed_over(
    live: LiveIndex, snapshots: list[SnapshotEntry], tmp_path: Path
) -> None:
    gone = SnapshotStore.open(tmp_path / "nowhere")
    peers = [
        Peer("n2", live, tmp_path / "work", Disconnected("n2 does not answer")),
        Peer("n3", live, tmp_path / "work", flip_data),
        Peer("n4", live, tmp_path / "work"),
    ]
    found = await run(gone, tmp_path, snapshots, peers, 5, live.index.applied)
    assert found == f"peer n4 at {live.index.applied}"
    assert [peer.asked for peer in peers] == [1, 1, 1]
    assert digest_of_folder(tmp_path / "new" / "3") == (live.index.applied, live.index.digest())


async def test_the_log_is_last_and_leaves_the_folder_missing(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path
) -> None:
    assert await run(store, tmp_path, [], [], 0, -1) == "log"
    peer = Peer("n2", live, tmp_path / "work", NotHosted("n2 holds it no more"))
    assert await run(store, tmp_path, [], [peer], 0, live.index.applied) == "log"
    assert not (tmp_path / "new" / "3").exists()


async def test_with_nothing_left_it_is_said_what_was_tried(
    live: LiveIndex, store: SnapshotStore, snapshots: list[SnapshotEntry], tmp_path: Path
) -> None:
    first, _, third = snapshots
    flip(tmp_path / "store" / third.path / "manifest.json", 100)
    peer = Peer("n2", live, tmp_path / "work", flip_data)
    with pytest.raises(OffsetTrimmed) as caught:
        await run(store, tmp_path, snapshots, [peer], third.offset, live.index.applied)
    text = caught.value.message
    for part in (
        "no source is left for a replica of flights/3",
        f"snapshot {first.id}: it ends at {first.offset}, and the log begins at {third.offset}",
        f"snapshot {third.id}: ",
        "peer n2: data.mdb in the copy from n2",
        f"the log: it begins at {third.offset}, what was before is trimmed",
        "bring back a node that has it",
    ):
        assert part in text, text
    assert caught.value.fields["earliest"] == third.offset


async def test_where_a_source_was_only_away_another_try_may_help(
    live: LiveIndex, snapshots: list[SnapshotEntry], tmp_path: Path
) -> None:
    gone = SnapshotStore.open(tmp_path / "nowhere")
    with pytest.raises(Unavailable, match=r"no source is left for a replica of flights/3: .* is trimmed; snapshot"):
        await run(gone, tmp_path, snapshots, [], 5, live.index.applied)
    with pytest.raises(Unavailable, match="this node has no snapshot store"):
        await run(None, tmp_path, snapshots, [], 5, live.index.applied)


async def test_a_peer_that_is_behind_the_logs_beginning_is_of_no_use(live: LiveIndex, tmp_path: Path) -> None:
    applied = live.index.applied
    peer = Peer("n2", live, tmp_path / "work")
    with pytest.raises(
        OffsetTrimmed, match=f"peer n2: the copy ends at {applied}, and the log begins at {applied + 2}"
    ):
        await run(None, tmp_path, [], [peer], applied + 2, applied + 9)
    assert await run(None, tmp_path, [], [peer], applied + 1, applied + 9) == f"peer n2 at {applied}"


@pytest.mark.parametrize(
    ("code", "wanted"), [(errno.ENOSPC, DiskFull), (errno.EIO, DiskFailed), (errno.EMFILE, Overloaded)]
)
async def test_a_trouble_of_this_machine_ends_it_at_once(
    live: LiveIndex,
    store: SnapshotStore,
    snapshots: list[SnapshotEntry],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    wanted: type[DuramenError],
) -> None:
    """The next sources would meet it too, and the last of them is a fold of the whole log."""
    peer = Peer("n2", live, tmp_path / "work")

    async def refused(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(SnapshotStore, "fetch", refused)
    with pytest.raises(wanted, match=os.strerror(code)):
        await run(store, tmp_path, snapshots, [peer], 0, live.index.applied)
    assert peer.asked == 0


async def test_behind_a_peer_that_has_too_much_to_do_the_next_source_is_used(live: LiveIndex, tmp_path: Path) -> None:
    busy = Peer("n2", live, tmp_path / "work", Overloaded("too many copies"))
    peer = Peer("n3", live, tmp_path / "work")
    applied = live.index.applied
    assert await run(None, tmp_path, [], [busy, peer], 0, applied) == f"peer n3 at {applied}"


async def test_only_snapshots_were_wanted_and_none_is_good(
    live: LiveIndex, store: SnapshotStore, snapshots: list[SnapshotEntry], tmp_path: Path
) -> None:
    for one in snapshots:
        (stored_file(tmp_path / "store", one, "data.mdb")).unlink()  # type: ignore[arg-type]
    with pytest.raises(OffsetTrimmed, match=r"data\.mdb is missing"):
        await run(store, tmp_path, snapshots, [Peer("n2", live, tmp_path)], 0, live.index.applied, "snapshot")
