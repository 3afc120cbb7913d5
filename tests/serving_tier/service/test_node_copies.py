"""A live replica's copy over gRPC: installed at another node it holds the same, and a sender is not worn out by it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.two_nodes import DEADLINE_S, ZERO, TwoNodes
from kit.deadlines import until, within

from log_tier.model.errors import Disconnected, DiskFailed, DuramenError, NotHosted, Overloaded, ShuttingDown
from log_tier.model.identifiers import Offset
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.service import copies
from serving_tier.service import server as module
from serving_tier.service.content_digest import digest_pinned
from serving_tier.service.copies import COPIES_MAX
from serving_tier.service.peer import NodePeer
from serving_tier.snapshots.peer_copy import CopySource, install_copy


def peer_of(nodes: TwoNodes, number: int = 0) -> NodePeer:
    return NodePeer(f"n{number + 1}", nodes.nodes[number].target)


async def fill(nodes: TwoNodes, keys: int, *, size: int = 100) -> Offset:
    last = Offset(-1)
    for first in range(0, keys, 1000):
        last = await nodes.write(*[b"%d" % n for n in range(first, min(keys, first + 1000))], value=bytes(size))
    await nodes.level(last)
    return last


def leftovers(nodes: TwoNodes) -> list[Path]:
    return list((nodes.nodes[0].folder / "copies").iterdir())


async def test_a_copy_of_a_live_replica_holds_the_same_elsewhere(nodes: TwoNodes, tmp_path: Path) -> None:
    """Writes go on while it is made; the copy is of one offset, and follows the log from there."""
    await fill(nodes, 3000)
    stop = asyncio.Event()

    async def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            await nodes.write(b"%d" % (number % 500), value=b"%d" % number)

    writing = asyncio.ensure_future(write())
    folder = tmp_path / "elsewhere" / "0"
    source: CopySource = peer_of(nodes)
    try:
        async with aclosing(source.copy(nodes.topic.partition(ZERO))) as parts:
            manifest = await install_copy(parts, folder, peer=source.name, partition=nodes.topic.partition(ZERO))
    finally:
        stop.set()
        await writing
    copied = LmdbIndex.open(folder, partition=nodes.topic.partition(ZERO))
    assert copied.applied == manifest.offset >= 2999
    async for chunk in nodes.log.read(nodes.topic.partition(ZERO), Offset(copied.applied + 1), follow=False):
        copied.apply(chunk.data)
    with copied.pinned() as pinned:
        elsewhere = digest_pinned(pinned, buckets=16)
    copied.close()
    await nodes.level(elsewhere.offset)
    here = await nodes.nodes[0].digest(nodes.topic, elsewhere.offset, buckets=16)
    assert (here.offset, here.keys, list(here.digests)) == (elsewhere.offset, elsewhere.keys, elsewhere.digests)
    await until(lambda: not leftovers(nodes))


async def test_a_replica_that_is_not_there(nodes: TwoNodes) -> None:
    with pytest.raises(NotHosted):
        await anext(peer_of(nodes).copy(nodes.topic.partition(7)))


async def test_a_peer_that_is_away(nodes: TwoNodes) -> None:
    await nodes.nodes[0].server.stop(None)
    with pytest.raises(Disconnected):
        await anext(peer_of(nodes).copy(nodes.topic.partition(ZERO)))


async def test_a_copy_that_waits_gets_its_turn(nodes: TwoNodes) -> None:
    await fill(nodes, 3000, size=10_000)
    held = [peer_of(nodes).copy(nodes.topic.partition(ZERO)) for _ in range(COPIES_MAX)]
    for parts in held:
        assert (await anext(parts)).bytes
    waiting = peer_of(nodes).copy(nodes.topic.partition(ZERO))
    coming = asyncio.ensure_future(anext(waiting))
    await held[0].aclose()
    assert (await coming).bytes
    for parts in (*held, waiting):
        await parts.aclose()
    await until(lambda: not leftovers(nodes))


async def test_only_some_copies_at_a_time(nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "TURN_S", 0.2)
    await fill(nodes, 3000, size=10_000)
    held = [peer_of(nodes).copy(nodes.topic.partition(ZERO)) for _ in range(COPIES_MAX)]
    for parts in held:
        assert (await anext(parts)).bytes
    refused = peer_of(nodes).copy(nodes.topic.partition(ZERO))
    with pytest.raises(Overloaded, match=f"gives {COPIES_MAX} copies already"):
        await anext(refused)
    for parts in held:
        await parts.aclose()
    await until(lambda: not leftovers(nodes))
    async with aclosing(peer_of(nodes).copy(nodes.topic.partition(ZERO))) as parts:
        assert (await anext(parts)).bytes


async def test_a_receiver_that_takes_nothing_is_given_up(nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STALLED_S", 0.2)
    await fill(nodes, 5000, size=10_000)
    parts: Any = peer_of(nodes).copy(nodes.topic.partition(ZERO))
    await anext(parts)
    await anext(parts)
    assert leftovers(nodes)
    await until(lambda: not leftovers(nodes))
    with pytest.raises(DuramenError, match="took nothing of the copy for"):
        async for _ in parts:
            pass
    await parts.aclose()


async def test_a_server_that_stops_ends_its_copies(nodes: TwoNodes) -> None:
    await fill(nodes, 3000, size=10_000)
    parts: Any = peer_of(nodes).copy(nodes.topic.partition(ZERO))
    await anext(parts)
    nodes.nodes[0].streams.end()
    with pytest.raises(ShuttingDown):
        async for _ in parts:
            pass
    await parts.aclose()
    await until(lambda: not leftovers(nodes))


async def test_what_a_killed_process_left_is_removed(nodes: TwoNodes) -> None:
    left = nodes.nodes[0].folder / "copies" / "copy-of-yesterday"
    left.mkdir(parents=True)
    (left / "data.mdb").write_bytes(b"x")
    async with within(DEADLINE_S), aclosing(peer_of(nodes).copy(nodes.topic.partition(ZERO))) as parts:
        await anext(parts)
        assert not left.exists()


async def test_a_folder_that_could_not_be_emptied_is_emptied_by_a_later_copy(nodes: TwoNodes, tmp_path: Path) -> None:
    """One failure of the disk is not the end of all copies, and has a type."""
    await fill(nodes, 10)
    folder = nodes.nodes[0].folder / "copies"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_bytes(b"")  # no folder can be made in its place

    async def copy() -> None:
        async with aclosing(peer_of(nodes).copy(nodes.topic.partition(ZERO))) as parts:
            await install_copy(parts, tmp_path / "there", peer="n1", partition=nodes.topic.partition(ZERO))

    async with within(DEADLINE_S):
        for _ in range(2):
            with pytest.raises(DiskFailed, match=str(folder)):
                await copy()
        folder.unlink()
        await copy()
