"""Digests over gRPC: two real replicas compared at one offset while writes go on, differences named to the key."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
from kit.cluster.two_nodes import DEADLINE_S, TwoNodes
from kit.deadlines import patience_s, until

from log_tier.model.errors import (
    InvalidRequest,
    LimitExceeded,
    NotHosted,
    OffsetPassed,
    Overloaded,
    ReplicaBehind,
    ShuttingDown,
)
from log_tier.model.identifiers import Offset, table_id_to_bytes
from serving_tier.proto import node_pb2
from serving_tier.service import content_digest as digest_module
from serving_tier.service import digests as module


async def test_two_replicas_are_equal_at_one_offset_while_writes_go_on(nodes: TwoNodes) -> None:
    chance, stop = random.Random(3), asyncio.Event()

    async def write() -> None:
        while not stop.is_set():
            keys = [b"%d" % chance.randrange(500) for _ in range(chance.randrange(1, 20))]
            await nodes.write(*keys, value=b"%d" % chance.randrange(9))

    writing = asyncio.ensure_future(write())
    seen: set[bytes] = set()
    try:
        met = 0
        while met < 10:
            # A little ahead: far enough that neither has passed it when it is asked.
            offset = max(replica.progress.latest for replica in nodes.replicas) + 300
            first, second = await asyncio.gather(
                *(node.digest(nodes.topic, offset, buckets=32) for node in nodes.nodes)
            )
            assert first.offset == second.offset >= offset
            assert (first.keys, first.digests) == (second.keys, second.digests)
            assert len(first.digests) == 32
            seen.update(first.digests)
            met += 1
    finally:
        stop.set()
        await writing
    assert len(seen) > 32, "writes went on"


async def test_an_altered_key_is_named(nodes: TwoNodes) -> None:
    last = await nodes.write(*[b"%d" % n for n in range(1000)])
    await nodes.level(last)
    index = nodes.replicas[1].index
    with index._env.begin(index._data, write=True) as txn:
        stored = txn.get(b"700")
        txn.put(b"700", stored[:-1] + b"w")
    first, second = await asyncio.gather(*(node.digest(nodes.topic, last, buckets=64) for node in nodes.nodes))
    differing = [at for at in range(64) if first.digests[at] != second.digests[at]]
    assert len(differing) == 1
    listings = await asyncio.gather(
        *(node.digest(nodes.topic, last, buckets=64, list_buckets=differing) for node in nodes.nodes)
    )
    mine, theirs = (
        set(zip(each.listed_keys, each.listed_versions, each.listed_hashes, strict=True)) for each in listings
    )
    assert {key for key, _, _ in mine ^ theirs} == {b"700"}
    assert len(mine & theirs) > 5


async def test_by_default_there_are_256_buckets(nodes: TwoNodes) -> None:
    reply = await nodes.nodes[0].digest(nodes.topic, -1)
    assert (reply.offset, reply.keys, len(reply.digests)) == (-1, 0, 256)


async def test_what_is_refused(nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    served = nodes.nodes[0]
    last = await nodes.write(b"a", b"b", b"c")
    await nodes.level(last)
    with pytest.raises(OffsetPassed, match="has applied 2, beyond 1") as passed:
        await served.digest(nodes.topic, 1)
    assert passed.value.fields == {"partition": 0, "asked": 1, "applied": 2}
    with pytest.raises(InvalidRequest, match="1 to 16384 buckets"):
        await served.digest(nodes.topic, last, buckets=20_000)
    with pytest.raises(InvalidRequest, match="a table id has 16 bytes"):
        await served.ask(served.stub.Digest, node_pb2.DigestRequest(table_id=b"x"))
    elsewhere = node_pb2.DigestRequest(table_id=table_id_to_bytes(nodes.topic.id), partition=5)
    with pytest.raises(NotHosted):
        await served.ask(served.stub.Digest, elsewhere)
    ahead = node_pb2.DigestRequest(table_id=table_id_to_bytes(nodes.topic.id), offset=9)
    with pytest.raises(ReplicaBehind, match="has applied 2, and should be read at 9"):
        await served.wire.ask(served.stub.Digest, ahead, timeout=patience_s(1.0))
    monkeypatch.setattr(digest_module, "LISTED_BYTES_MAX", 10)
    with pytest.raises(LimitExceeded, match="list fewer buckets"):
        await served.digest(nodes.topic, last, buckets=1, list_buckets=[0])
    assert len(nodes.replicas[0].index.readers) == 0


async def test_there_are_not_more_than_some_at_a_time(nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DIGESTS_MAX", 2)
    served = nodes.nodes[0]
    waiting = [asyncio.ensure_future(served.digest(nodes.topic, 0)) for _ in range(3)]
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=DEADLINE_S)
    with pytest.raises(Overloaded, match="computes 2 digests already"):
        await done.pop()
    await nodes.write(b"a")
    answered = await asyncio.gather(*waiting, return_exceptions=True)
    assert sorted(type(each).__name__ for each in answered) == ["DigestReply", "DigestReply", "Overloaded"]


async def test_a_digest_ends_soon_when_its_replica_is_closed_or_its_asker_leaves(
    nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, may_go = threading.Event(), threading.Event()
    inner = digest_module.digest_pinned

    def slow(pinned: object, **how: object) -> object:
        inside.set()
        may_go.wait(patience_s(DEADLINE_S))
        return inner(pinned, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "digest_pinned", slow)
    last = await nodes.write(b"a")
    await nodes.level(last)
    asking = asyncio.ensure_future(nodes.nodes[0].digest(nodes.topic, last))
    await asyncio.to_thread(inside.wait, DEADLINE_S)
    replica = nodes.replicas[0]
    closing = asyncio.ensure_future(replica.close())
    await until(lambda: replica.state == "closed")
    assert not closing.done()
    may_go.set()
    await closing
    with pytest.raises(ShuttingDown, match="flights/0 is closing"):
        await asking

    inside.clear()
    may_go.clear()
    other = nodes.replicas[1]
    asking = asyncio.ensure_future(nodes.nodes[1].digest(nodes.topic, last))
    await asyncio.to_thread(inside.wait, DEADLINE_S)
    asking.cancel()
    await asyncio.wait([asking])
    assert other.index.readers, "the thread is still in the transaction"
    may_go.set()
    await until(lambda: not other.index.readers)
    await other.wait_applied(Offset(0), timeout=0)
