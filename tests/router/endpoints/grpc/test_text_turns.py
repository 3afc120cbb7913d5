"""Rows as text, in calls and streams of several users: each of them waits for one piece of another user's work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from log_tier.access.current import CALLER
from log_tier.access.gate import NOBODY
from log_tier.access.user_turns import SMALL_BYTES_MAX, ThreadTurns
from log_tier.model.identifiers import TableId
from log_tier.model.table_ref import TableRef
from log_tier.rows.definition import TableDefinition
from log_tier.rows.json_rows.json_table import JsonTable
from router.data.seam import TableAdmin
from router.endpoints.grpc.kv.forms import TEXT_ITEM_BYTES, TableText

LARGE = SMALL_BYTES_MAX + TEXT_ITEM_BYTES
TABLE = TableRef(TableId("t"), "texts", 1)
FORM = JsonTable(TableDefinition(key="str", value="json"))


def text(turns: ThreadTurns) -> TableText:
    return TableText(cast("TableAdmin", None), TABLE, FORM, 0.0, turns)


async def streamed(mine: TableText, work: Callable[[], Any]) -> None:
    def made() -> Iterator[Any]:
        yield work()

    async for _ in mine.each_sized(LARGE // TEXT_ITEM_BYTES, made()):
        pass


WAYS: dict[str, Callable[[TableText, Callable[[], Any]], Awaitable[Any]]] = {
    "a value": lambda mine, work: mine.converted(LARGE, lambda _: work()),
    "a page that is looked at": lambda mine, work: mine.run_sized(LARGE // TEXT_ITEM_BYTES, work),
    "messages": streamed,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_users_alternate(way: Callable[[TableText, Callable[[], Any]], Awaitable[Any]]) -> None:
    turns, let_go, order = ThreadTurns(), threading.Event(), list[str]()

    async def call(user: str) -> None:
        CALLER.set(replace(NOBODY, name=user))

        def work() -> None:
            let_go.wait()
            order.append(user)

        await way(text(turns), work)

    tasks = [asyncio.create_task(call(user)) for user in "xaaab"]
    await asyncio.sleep(0)
    let_go.set()
    await asyncio.gather(*tasks)
    assert order == ["x", "a", "b", "a", "a"]
