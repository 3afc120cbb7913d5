"""Callers that are cancelled while an index closes: its files stay until it is closed, and nothing fails unheard."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kit.deadlines import patience_s
from kit.log.stored_log import columns_of, put

from log_tier.concurrency.workers import THREADS, Consumer
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import encode_batch
from log_tier.model.errors import NotHosted
from log_tier.model.identifiers import Partition, PartitionId
from serving_tier.node.node import Node
from serving_tier.replica.replica import Replica

DEADLINE_S = 20
ZERO = Partition(0)

T = TypeVar("T")


class HeldClosers:
    """The threads of a node, of which those that close indexes wait for `go_on`."""

    quick_s = THREADS.quick_s

    def __init__(self) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.failures: list[BaseException] = []
        self.closed = 0

    def consumer(self, work: Callable[[list[T]], bool], *, name: str) -> Consumer[T]:
        return THREADS.consumer(work, name=name)

    def pool(self, threads: int, *, name: str) -> Executor:
        return _HeldPool(self, threads, name)


class _HeldPool(ThreadPoolExecutor):
    def __init__(self, held: HeldClosers, threads: int, name: str) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self._held = held

    def submit(self, fn: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        def close() -> T:
            self._held.entered.set()
            self._held.go_on.wait(patience_s(DEADLINE_S))
            try:
                result = fn(*arguments, **named)
            except BaseException as error:
                self._held.failures.append(error)
                raise
            self._held.closed += 1
            return result

        return super().submit(close)


@pytest.fixture
def closers() -> HeldClosers:
    return HeldClosers()


@pytest.fixture
async def node(tmp_path: Path, closers: HeldClosers) -> AsyncIterator[Node]:
    async with await EmbeddedLog.open(tmp_path / "log") as log:
        opened = await Node.open(log, tmp_path / "index", workers=closers)
        topic = await log.create_topic("flights", partitions=1)
        replica = await opened.host(topic, topic.partition(ZERO))
        appended = await log.append(replica.id, encode_batch(columns_of([put(b"k", b"v")])))
        await replica.wait_applied(appended.base_offset, timeout=DEADLINE_S)
        yield opened
        closers.go_on.set()
        await opened.close()


@pytest.fixture
def name(node: Node) -> PartitionId:
    (found,) = node.hosted()
    return found


@pytest.fixture
async def unheard(node: Node) -> AsyncIterator[list[str]]:
    """What asyncio says of errors that nobody was given."""
    messages: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: messages.append(str(context)))
    yield messages
    asyncio.get_running_loop().set_exception_handler(None)


async def cancelled_in(task: asyncio.Task[None], closers: HeldClosers) -> None:
    """Cancel it twice while a thread closes the index, and let everything else go on that can."""
    assert await asyncio.to_thread(closers.entered.wait, patience_s(DEADLINE_S))
    for _ in range(2):
        task.cancel()
        for _ in range(20):
            await asyncio.to_thread(lambda: None)
    assert not task.done(), "the index is still being closed"


async def cancelled_unhost(node: Node, name: PartitionId, closers: HeldClosers) -> asyncio.Task[None]:
    leaving = asyncio.create_task(node.unhost(name, NotHosted("n2 has flights/0 now")))
    await cancelled_in(leaving, closers)
    return leaving


async def test_a_folder_goes_when_its_index_is_closed(
    node: Node, name: PartitionId, closers: HeldClosers, unheard: list[str]
) -> None:
    folder = node.replica_folder(name)
    leaving = await cancelled_unhost(node, name, closers)
    assert (folder / "index.json").exists()
    closers.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert (closers.closed, closers.failures) == (1, [])
    assert not folder.parent.exists()
    gc.collect()
    await asyncio.sleep(0)
    assert unheard == []


async def test_a_node_is_closed_when_what_it_lets_go_is_closed(
    node: Node, name: PartitionId, closers: HeldClosers, unheard: list[str]
) -> None:
    leaving = await cancelled_unhost(node, name, closers)
    closing = asyncio.create_task(node.close())
    await cancelled_in(closing, closers)
    closers.go_on.set()
    for task in (closing, leaving):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (closers.closed, closers.failures, unheard) == (1, [], [])
    assert not node.replica_folder(name).exists()


async def test_a_node_whose_closing_is_cancelled_closes_its_indexes(
    node: Node, name: PartitionId, closers: HeldClosers, unheard: list[str]
) -> None:
    replica = node.replica(name)
    closing = asyncio.create_task(node.close())
    await cancelled_in(closing, closers)
    again = asyncio.create_task(replica.close())
    await cancelled_in(again, closers)
    closers.go_on.set()
    for task in (closing, again):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (closers.closed, closers.failures, unheard) == (1, [], [])


async def test_a_close_that_fails_behind_its_cancelled_caller_is_logged(
    node: Node,
    name: PartitionId,
    closers: HeldClosers,
    unheard: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError("the disk is gone")

    replica: Replica = node.replica(name)
    inner = replica.index.close
    monkeypatch.setattr(replica.index, "close", failing)
    leaving = await cancelled_unhost(node, name, closers)
    closers.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    inner(clean=False)
    gc.collect()
    await asyncio.sleep(0)
    assert unheard == []
    assert "the disk is gone" in caplog.text
    assert not node.replica_folder(name).exists()
