"""What a router's page knows of the nodes: when they are asked, what of it is shown, and who does not answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from kit.client.status_documents import disk, document, partition
from kit.virtual_loop import run_virtually

from duramen.server.console.node_facts import NodeFacts, facts_of_status
from duramen.server.console.node_watch import ASKED_EACH_S, TIMEOUT_S, NodeWatch
from duramen.server.sight.observed import NodeSeen
from log_tier.concurrency import sized_work
from log_tier.model.errors import Disconnected

TABLE = "secret_table"


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sized_work, "AT_ONCE_ITEMS_MAX", 1 << 30)


def seen(*names: str, lost: tuple[str, ...] = ()) -> list[NodeSeen]:
    return [NodeSeen(each, f"{each}:7070", each not in lost, "it is gone" if each in lost else "") for each in names]


class ScriptedNodes:
    """Answers as a test says: a document, an error, or never."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes | Exception | None] = {}
        self.asked: list[str] = []

    async def __call__(self, node: str, *, timeout: float) -> bytes:
        self.asked.append(node)
        answer = self.answers[node]
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.get_running_loop().create_future()
        assert isinstance(answer, bytes)
        return answer


def watched(script: Callable[[NodeWatch, ScriptedNodes], Coroutine[Any, Any, None]]) -> None:
    async def work() -> None:
        nodes = ScriptedNodes()
        watch = NodeWatch(nodes, asyncio.get_running_loop().time)
        await script(watch, nodes)
        await watch.close()

    run_virtually(work())


def well(**fields: Any) -> bytes:
    found = document(
        partition(0, last=5, applied=5, table=TABLE),
        partition(1, last=5, applied=2, table=TABLE, state="behind"),
        disk=disk(1 << 30),
        memory_bytes=7,
        troubles=[{"kind": "behind", "what": f"{TABLE}/1 lags", "do": "wait", "blocks": True}],
        **fields,
    )
    return json.dumps(found).encode()


def test_what_a_node_says_is_shown_without_its_tables() -> None:
    facts = facts_of_status(json.loads(well(ready=False)), 3.0)
    assert facts == NodeFacts(
        answered_s=3.0,
        ready=False,
        troubles=("behind",),
        partitions=2,
        partitions_unready=1,
        disk_free_bytes=1 << 30,
        disk_full_bytes=1 << 40,
        memory_bytes=7,
    )
    assert TABLE not in repr(facts)


def test_nodes_are_asked_while_somebody_watches() -> None:
    async def script(watch: NodeWatch, nodes: ScriptedNodes) -> None:
        nodes.answers = {"n1": well(), "n2": well()}
        for _ in range(60):
            watch.look(seen("n1", "n2"), watched=False)
            await asyncio.sleep(1)
        assert nodes.asked == []
        assert watch.facts() == {"n1": NodeFacts(), "n2": NodeFacts()}
        for _ in range(60):
            watch.look(seen("n1", "n2"), watched=True)
            await asyncio.sleep(1)
        assert len(nodes.asked) == 2 * 60 / ASKED_EACH_S
        assert watch.facts()["n2"].partitions == 2

    watched(script)


def test_one_that_does_not_answer_holds_up_nothing() -> None:
    async def script(watch: NodeWatch, nodes: ScriptedNodes) -> None:
        nodes.answers = {"n1": well(), "n2": well(), "n3": well()}
        watch.look(seen("n1", "n2", "n3"), watched=True)
        await asyncio.sleep(ASKED_EACH_S)
        nodes.answers |= {"n1": None, "n2": Disconnected("it was lost during a request")}
        watch.look(seen("n1", "n2", "n3"), watched=True)
        await asyncio.sleep(TIMEOUT_S + 0.1)
        facts = watch.facts()
        assert "no answer within 2 s" in facts["n1"].error
        assert facts["n1"].answered_s == 0.0, "what it said before is shown, with its age"
        assert facts["n1"].partitions == 2
        assert "lost" in facts["n2"].error
        assert (facts["n3"].error, facts["n3"].answered_s) == ("", ASKED_EACH_S)

    watched(script)


def test_a_node_whose_stream_is_gone_is_not_asked() -> None:
    async def script(watch: NodeWatch, nodes: ScriptedNodes) -> None:
        nodes.answers = {"n1": well()}
        watch.look(seen("n1", "n2", lost=("n2",)), watched=True)
        await asyncio.sleep(0.1)
        assert nodes.asked == ["n1"]
        assert watch.facts()["n2"].error == "it is gone"

    watched(script)


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"[]", b"{}", b'{"disk": 7}', b"\xff", b'"text"', b'{"disk":{},"partitions":7}', b"[" * 100_000),
        well().replace(b'"memory_bytes": 7', b'"memory_bytes": 1e999'),
    ],
)
def test_an_answer_that_is_none_is_named(answer: bytes) -> None:
    async def script(watch: NodeWatch, nodes: ScriptedNodes) -> None:
        nodes.answers = {"n1": answer, "n2": well()}
        watch.look(seen("n1", "n2"), watched=True)
        await asyncio.sleep(0.1)
        assert "no status document" in watch.facts()["n1"].error
        assert watch.facts()["n2"].error == ""

    watched(script)


def test_since_when_a_node_is_lost() -> None:
    async def script(watch: NodeWatch, nodes: ScriptedNodes) -> None:
        found = []
        for lost in ((), (), ("n1",), ("n1",), ()):
            watch.look(seen("n1", "n2", lost=lost), watched=False)
            found.append(watch.facts()["n1"].alive_since_s)
            await asyncio.sleep(1)
        assert found == [None, None, 2.0, 2.0, 4.0]
        watch.look(seen("n1", "n2", "n3"), watched=False)
        assert watch.facts()["n3"].alive_since_s == 5.0
        watch.look(seen("n1"), watched=False)
        assert watch.facts().keys() == {"n1"}

    watched(script)
