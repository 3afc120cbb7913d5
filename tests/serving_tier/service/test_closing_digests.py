"""The end of a node's digests: the loop serves others while the digests' thread is still in an index."""

from __future__ import annotations

import asyncio
import threading

import pytest
from kit.cluster.two_nodes import DEADLINE_S, TwoNodes
from kit.deadlines import patience_s

from serving_tier.service import content_digest as digest_module
from serving_tier.service import digests as module


async def test_closing_digests_leaves_the_loop_to_others(nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, may_go = threading.Event(), threading.Event()
    inner = digest_module.digest_pinned

    def slow(pinned: object, **how: object) -> object:
        inside.set()
        assert may_go.wait(patience_s(DEADLINE_S)), "the loop does not turn: the close blocks it"
        return inner(pinned, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "digest_pinned", slow)
    last = await nodes.write(b"a")
    await nodes.level(last)
    digests = module.Digests()
    replica = nodes.replicas[0]
    digesting = asyncio.ensure_future(
        digests.digest(replica, last, buckets=1, listed=frozenset(), timeout=patience_s(DEADLINE_S))
    )
    assert await asyncio.to_thread(inside.wait, patience_s(DEADLINE_S))
    closing = asyncio.ensure_future(digests.close())
    await asyncio.sleep(0)
    closing.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not closing.done(), "the thread is still in the transaction"
    assert replica.index.readers
    may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not replica.index.readers
    await asyncio.wait([digesting])
    await digests.close()
