"""Pages of scans that users ask for at once: one thread reads at a time, and the users alternate."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from kit.deadlines import patience_s, within

from log_tier.access.current import CALLER
from log_tier.access.gate import NOBODY
from log_tier.access.user_turns import each_in_turn, run_in_turn
from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from router.data.reply_budget import ReplyBudget, read_many_keys
from router.data.requests import ReadPart, ScanRequest
from router.data.scan import scan_replicas
from serving_tier.index.index import Found, ScanPage

MANY = AT_ONCE_ITEMS_MAX + 1


@dataclass
class HeldReplica:
    """A replica whose reads wait until they may go on."""

    let_go: threading.Event = field(default_factory=threading.Event)
    order: list[str] = field(default_factory=list)
    reading_now: int = 0
    version: int = 0
    served: int = 0
    is_at_rest: bool = False
    id: PartitionId = field(default_factory=lambda: PartitionId(TableId("t"), Partition(0)))

    @property
    def progress(self) -> HeldReplica:
        return self

    @property
    def index(self) -> HeldReplica:
        return self

    @contextmanager
    def reading(self, _: int | None = None) -> Iterator[HeldReplica]:
        yield self

    def hold(self) -> None:
        self.reading_now += 1
        assert self.reading_now == 1, "two threads read at once"
        assert self.let_go.wait(patience_s(30))
        caller = CALLER.get()
        assert caller is not None
        self.order.append(caller.name)
        self.reading_now -= 1

    def scan(self, *_: Any, **__: Any) -> ScanPage:
        self.hold()
        return ScanPage([], [], [], None, more=False, applied=Offset(0))

    def get_many(self, keys: list[bytes], **_: Any) -> Found:
        self.hold()
        return Found(Offset(0), [None] * len(keys), [-1] * len(keys), None)


async def _scan(replica: HeldReplica) -> None:
    await scan_replicas([cast("Any", replica)], ScanRequest(replica.id.table, b"", None, False, 10))


async def _read(replica: HeldReplica) -> None:
    await read_many_keys(cast("Any", replica), ReadPart(replica.id, [b"k"] * MANY), ReplyBudget())


async def _made(replica: HeldReplica) -> None:
    async for _ in each_in_turn(MANY, iter(replica.hold, 0)):
        return


WAYS: dict[str, Callable[[HeldReplica], Awaitable[None]]] = {
    "a scan": _scan,
    "a read of many keys": _read,
    "work on many items": lambda replica: run_in_turn(MANY, replica.hold),
    "messages of many entries": _made,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_users_alternate_at_the_threads(way: Callable[[HeldReplica], Awaitable[None]]) -> None:
    """Six threads of one user's scans made each turn of the loop wait for all of them: another's get took a second."""
    replica = HeldReplica()

    async def call(user: str) -> None:
        CALLER.set(replace(NOBODY, name=user))
        await way(replica)

    tasks = [asyncio.create_task(call(user)) for user in "xaaaaab"]
    await asyncio.sleep(0)
    replica.let_go.set()
    async with within(60):
        await asyncio.gather(*tasks)
    assert replica.order == list("xabaaaa")


async def test_a_few_items_need_no_thread() -> None:
    assert await run_in_turn(AT_ONCE_ITEMS_MAX, threading.get_ident) == threading.get_ident()
    made = [each async for each in each_in_turn(1, iter((threading.get_ident(),)))]
    assert made == [threading.get_ident()]
