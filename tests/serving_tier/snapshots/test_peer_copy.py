"""A copy of a live index for a peer: sent while it is made, and installed only if it is what its manifest says."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from kit.deadlines import patience_s
from kit.index.copy_peer import Peer, flip_data
from kit.index.live_index import LiveIndex, digest_of_folder
from kit.log.stored_log import PARTITION, TABLE

from log_tier.concurrency.threads import Stop
from log_tier.model.errors import (
    IndexDamaged,
    Overloaded,
    SnapshotDamaged,
)
from log_tier.model.identifiers import PartitionId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.snapshots import CopyPart, send_copy, take
from serving_tier.snapshots.contents import Contents, read_contents
from serving_tier.snapshots.manifest import PIECE_BYTES
from serving_tier.snapshots.peer_copy import install_copy


async def test_a_peers_copy_arrives_whole(live: LiveIndex, tmp_path: Path) -> None:
    live.fill(40_000)
    parts = [part async for part in send_copy(live.reading, table_name="flights", work_folder=tmp_path / "work")]
    assert parts[0].offset == live.index.applied
    assert parts[0].bytes >= sum(len(part.data) for part in parts[:-2])
    assert parts[-1].manifest
    assert not any(part.manifest for part in parts[:-1])
    assert max(len(part.data) for part in parts) == PIECE_BYTES
    assert sum(len(part.data) for part in parts) > 2 * PIECE_BYTES
    assert list((tmp_path / "work").iterdir()) == []

    async def stream() -> AsyncGenerator[CopyPart, None]:
        for part in parts:
            yield part

    seen: list[tuple[str, int, int]] = []
    manifest = await install_copy(
        stream(),
        tmp_path / "new",
        peer="n2",
        partition=PartitionId(TABLE, PARTITION),
        progress=lambda *what: seen.append(what),
    )
    assert seen[-1] == ("copying from n2", manifest.bytes, parts[0].bytes)
    assert digest_of_folder(tmp_path / "new") == (live.index.applied, live.index.digest())


async def test_a_sender_that_is_stopped_removes_its_copy(live: LiveIndex, tmp_path: Path) -> None:
    sending = send_copy(live.reading, table_name="flights", work_folder=tmp_path / "work")
    await anext(sending)
    await anext(sending)
    assert list((tmp_path / "work").iterdir()) != []
    await sending.aclose()
    assert list((tmp_path / "work").iterdir()) == []
    assert live.readers == 0


async def test_pieces_are_sent_while_lmdb_writes_the_next_ones(
    live: LiveIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LMDB is held up in the middle of its file, and what is before that comes all the same."""
    live.fill(40_000)
    may_go = threading.Event()
    copy_to = LmdbIndex.copy_to

    def held_up(index: LmdbIndex, file: int) -> None:
        whole = tmp_path / "whole"
        with whole.open("wb") as out:
            copy_to(index, out.fileno())
        data = whole.read_bytes()
        with open(os.dup(file), "wb", 0) as pipe:
            for at in range(0, len(data), PIECE_BYTES):
                if at == 3 * PIECE_BYTES:
                    assert may_go.wait(patience_s(30))
                pipe.write(data[at : at + PIECE_BYTES])

    monkeypatch.setattr(LmdbIndex, "copy_to", held_up)
    sending = send_copy(live.reading, table_name="flights", work_folder=tmp_path / "work")
    came = [await anext(sending) for _ in range(4)]
    assert [len(part.data) for part in came] == [0, *[PIECE_BYTES] * 3]
    assert live.readers == 1
    may_go.set()
    came += [part async for part in sending]

    async def stream() -> AsyncGenerator[CopyPart, None]:
        for part in came:
            yield part

    await install_copy(stream(), tmp_path / "new", peer="n2", partition=PartitionId(TABLE, PARTITION))
    assert digest_of_folder(tmp_path / "new") == (live.index.applied, live.index.digest())
    assert (live.readers, list((tmp_path / "work").iterdir())) == (0, [])


async def test_a_sender_that_is_stopped_while_lmdb_writes_ends_that_too(
    live: LiveIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.fill(40_000)
    stopped = threading.Event()
    ask = Stop.set

    def asked(stop: Stop) -> None:
        ask(stop)
        stopped.set()

    copy_to = LmdbIndex.copy_to

    def held_up(index: LmdbIndex, file: int) -> None:
        os.write(file, bytes(PIECE_BYTES))
        assert stopped.wait(patience_s(30))
        copy_to(index, file)

    monkeypatch.setattr(Stop, "set", asked)
    monkeypatch.setattr(LmdbIndex, "copy_to", held_up)
    sending = send_copy(live.reading, table_name="flights", work_folder=tmp_path / "work")
    await anext(sending)
    assert len((await anext(sending)).data) == PIECE_BYTES
    await sending.aclose()
    assert (live.readers, list((tmp_path / "work").iterdir())) == (0, [])


async def test_what_keeps_lmdb_from_writing_is_what_the_sender_raises(
    live: LiveIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(index: LmdbIndex, file: int) -> None:
        os.write(file, bytes(2 * PIECE_BYTES))
        raise IndexDamaged("page 7 cannot be followed")

    monkeypatch.setattr(LmdbIndex, "copy_to", broken)
    with pytest.raises(IndexDamaged, match="page 7 cannot be followed"):
        async for _ in send_copy(live.reading, table_name="flights", work_folder=tmp_path / "work"):
            pass
    assert (live.readers, list((tmp_path / "work").iterdir())) == (0, [])


async def test_a_copy_of_a_version_that_is_live_no_more_is_asked_for_again(
    live: LiveIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent cannot be made again by the giver: it says that asking again helps, and is not taken for damage."""
    read = read_contents

    def overtaken(folder: Path, *, digest: bool = False) -> Contents:
        found = read(folder, digest=digest)
        return found._replace(live=found.live._replace(version=found.version + 1))

    monkeypatch.setattr(take, "read_contents", overtaken)
    with pytest.raises(Overloaded, match="another version of flights went live while this one was copied: ask again"):
        async for _ in send_copy(live.reading, table_name="flights", work_folder=tmp_path / "work"):
            pass
    assert (live.readers, list((tmp_path / "work").iterdir())) == (0, [])


def _flip_manifest(parts: list[CopyPart]) -> list[CopyPart]:
    return [*parts[:-1], CopyPart(parts[-1].manifest.replace(b"flights", b"flightz"))]


def _rename(parts: list[CopyPart]) -> list[CopyPart]:
    return [*parts[:-2], parts[-2]._replace(file="../../x"), parts[-1]]


def _shorten(parts: list[CopyPart]) -> list[CopyPart]:
    return [parts[0], parts[1]._replace(data=parts[1].data[:-4096]), *parts[1:]]


def _lose_a_page(parts: list[CopyPart]) -> list[CopyPart]:
    """A giver whose disk has lost a page before the checksums were made."""
    broken = bytearray(parts[1].data)
    broken[5 * 4096 : 6 * 4096] = bytes(4096)
    return [parts[0], parts[1]._replace(data=bytes(broken)), *parts[2:]]


TROUBLES: dict[str, tuple[Callable[[list[CopyPart]], list[CopyPart]], str]] = {
    "flipped data": (flip_data, r"data\.mdb in the copy from n2: bytes 0 to"),
    "flipped manifest": (_flip_manifest, "the copy from n2 says its checksum is"),
    "a lost page": (_lose_a_page, r"data\.mdb in the copy from n2 page 5 says that it is page 0"),
    "nothing": (lambda parts: [], "the copy from n2 does not begin as one"),
    "no beginning": (lambda parts: parts[1:], "the copy from n2 does not begin as one"),
    "only a beginning": (lambda parts: parts[:1], r"data\.mdb in the copy from n2 has 0 pages"),
    "no manifest": (lambda parts: parts[:-1], "the copy from n2 ends before its manifest"),
    "only its manifest": (lambda parts: [parts[0], parts[-1]], r"data\.mdb in the copy from n2 has 0 pages"),
    "a file is missing": (lambda parts: [*parts[:-2], parts[-1]], r"index\.json in the copy from n2 has 0 bytes"),
    "a part twice": (
        lambda parts: [*parts[:2], *parts[1:]],
        r"data\.mdb in the copy from n2 comes in pieces that are none",
    ),
    "a short piece": (_shorten, r"data\.mdb in the copy from n2 comes in pieces that are none"),
    "a part too many": (lambda parts: [*parts, CopyPart(file="x", data=b"y")], "goes on after its manifest"),
    "another file": (_rename, "the copy from n2 cannot be read"),
}


@pytest.mark.parametrize(("trouble", "why"), TROUBLES.values(), ids=TROUBLES.keys())
async def test_a_copy_that_is_not_what_its_manifest_says_is_refused(
    live: LiveIndex, tmp_path: Path, trouble: Callable[[list[CopyPart]], list[CopyPart]], why: str
) -> None:
    peer = Peer("n2", live, tmp_path / "work", trouble)
    with pytest.raises(SnapshotDamaged, match=why):
        await install_copy(
            peer.copy(PartitionId(TABLE, PARTITION)),
            tmp_path / "new" / "3",
            peer="n2",
            partition=PartitionId(TABLE, PARTITION),
        )
    assert list((tmp_path / "new").iterdir()) == [] if (tmp_path / "new").exists() else True
