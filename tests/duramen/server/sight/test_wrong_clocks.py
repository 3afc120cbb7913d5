"""A node whose wall clock is wrong by an hour: it serves as the others do, and the router's page names it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import until_true
from kit.event_stream import event_stream
from kit.http import http_get
from kit.set_clock import SetClock

from duramen import aio
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from log_tier.concurrency.clocks import SYSTEM_CLOCK

pytestmark = pytest.mark.embedded_log_only  # the clusters here have a log process of their own

HOUR_MS = 3_600_000
NODES = ("n1", "n2", "n3")


@asynccontextmanager
async def cluster_with(folder: Path, wrong_by_ms: int) -> AsyncIterator[tuple[RouterRole, dict[str, NodeRole]]]:
    """Three nodes, of which n2 has another time."""
    async with AsyncExitStack() as opened:
        log = await LogRole.open(folder / "log", host="127.0.0.1", port=0)
        opened.push_async_callback(log.close)
        url = f"grpc://127.0.0.1:{log.port}"
        nodes = {}
        for name in NODES:
            clock = SetClock(lambda: SYSTEM_CLOCK.wall_ms() + wrong_by_ms) if name == "n2" else SYSTEM_CLOCK
            where = {"node_id": name, "log_url": url, "host": "127.0.0.1", "port": 0}
            node = nodes[name] = await NodeRole.open(folder / name, clock=clock, **where)  # type: ignore[arg-type]
            opened.push_async_callback(node.close)
            await node.serve_http(0)
        router = await RouterRole.open(log_url=url, host="127.0.0.1", port=0)
        opened.push_async_callback(router.close)
        await router.serve_http(0)
        yield router, nodes


async def status_at(port: int) -> dict[str, Any]:
    _, _, body = await http_get(port, "/status")
    found: dict[str, Any] = json.loads(body)
    return found


def numbers_in(found: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a document, with the name of its field."""
    if isinstance(found, dict):
        for key, each in found.items():
            yield from numbers_in(each, key)
    elif isinstance(found, list):
        for each in found:
            yield from numbers_in(each, name)
    elif isinstance(found, (int, float)) and not isinstance(found, bool):
        yield name, found


@pytest.mark.parametrize("wrong_by_ms", [HOUR_MS, -HOUR_MS])
async def test_it_is_named_and_nothing_is_negative(tmp_path: Path, wrong_by_ms: int) -> None:
    async with cluster_with(tmp_path, wrong_by_ms) as (router, nodes):
        ports = {"router": router.http_port, **{name: node.http_port for name, node in nodes.items()}}
        async with await aio.connect(f"127.0.0.1:{router.port}") as db:
            table = await db.create_table("flights", partitions=3, replicas=3)
            for number in range(30):
                await table.put(b"k%d" % number, b"v", ttl=1800.0)
            assert len([key async for key, _ in table.scan()]) == 30, "an hour early, none has expired"

            async def named() -> bool:
                found = await status_at(router.http_port)
                return [each["kind"] for each in found["troubles"]] == ["clock_wrong"]

            await until_true(named)
            (trouble,) = (await status_at(router.http_port))["troubles"]
            side = "ahead of" if wrong_by_ms > 0 else "behind"
            assert trouble["what"] == f"the clock of n2 is 1 h {side} the others"
            for port in ports.values():
                assert (await http_get(port, "/readyz"))[0] == 200
            documents = [await status_at(port) for port in ports.values()]
            for port in ports.values():
                async with event_stream(port) as events:
                    whole = (await events.next()).data
                documents.append(whole["facts"])
                documents += [dict(zip(whole["columns"], row, strict=True)) for row in whole["rows"]]
                documents.append(json.loads((await http_get(port, "/history?since=-3600"))[2]))
            below = {(name, each) for found in documents for name, each in numbers_in(found) if each < 0}
            # n2 sees the log's clock as far from its own as the router sees n2's from the other side.
            skews = {("clock_skew_s", round(sign * wrong_by_ms / 1000)) for sign in (1, -1)}
            may_be = {*skews, ("proven", -1), ("first", -1)}
            assert below - may_be == set(), "applied and the proof begin at -1: nothing yet"
