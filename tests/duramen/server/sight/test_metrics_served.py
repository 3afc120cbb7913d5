"""`GET /metrics` of running servers: what moves the figures, who sees them, and that the documentation has them all."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import until_true
from kit.http import http_get
from kit.whole_server import measured_whole, observed_whole
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from duramen import aio
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.sight.metrics import metrics_to_text
from duramen.server.sight.status_document import status_of_server
from log_tier.access.authenticator import bearer_header
from log_tier.access.tokens import mint_token
from log_tier.model.errors import IndexDamaged
from log_tier.trust.trust_commands import AddToken, AddUser

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

OPERATIONS = Path(__file__).parents[4] / "docs/OPERATIONS.md"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SingleServer]:
    opened = await SingleServer.open(tmp_path / "data", port=0)
    await opened.serve_http(0)
    yield opened
    await opened.close()


async def scraped(port: int, *headers: str) -> Samples:
    code, fields, body = await http_get(port, "/metrics", *headers)
    assert code == 200, body
    assert fields["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


@pytest.mark.embedded_log_only  # its figures of the log are of one in this process
async def test_work_moves_the_figures(server: SingleServer) -> None:
    before = await scraped(server.http_port)
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        table = await db.create_table("flights", partitions=1)
        for number in range(3):
            done = await table.put(b"k%d" % number, b"v" * 5000)
        assert await table.get(b"k1", after=done.token) is not None
        assert len([each async for each in table.scan()]) == 3
    (replica,) = server.data_plane.node

    async def is_seen() -> bool:
        found = await scraped(server.http_port)
        applied = found.get(("duramen_partition_applied_offset", frozenset({("table", "flights"), ("partition", "0")})))
        return applied == replica.index.applied

    await until_true(is_seen)
    after = await scraped(server.http_port)
    for name in ("write_seconds", "read_seconds", "scan_seconds", "log_commit_seconds", "apply_seconds"):
        key = f"duramen_{name}_count"
        assert value(after, key) > value(before, key), name
    assert value(after, "duramen_write_seconds_count") - value(before, "duramen_write_seconds_count") >= 3
    assert (
        value(after, "duramen_log_commit_size_bytes_sum") - value(before, "duramen_log_commit_size_bytes_sum") > 15_000
    )
    assert value(after, "duramen_log_appends_total") > value(before, "duramen_log_appends_total")
    assert value(after, "duramen_partition_last_offset", table="flights", partition="0") == done.offset
    assert value(after, "duramen_partition_readable", table="flights", partition="0") == 1
    assert value(after, "duramen_memory_resident_bytes") > 10 << 20
    assert value(after, "duramen_log_queue_age_seconds") == 0


async def test_ten_scrapers_see_no_counter_fall(server: SingleServer) -> None:
    async def scrape_often() -> None:
        last: Samples = {}
        for _ in range(6):
            found = await scraped(server.http_port)
            fallen = {
                key: (last[key], value)
                for key, value in found.items()
                if re.search(r"_(total|count|sum|bucket)$", key[0]) and value < last.get(key, 0)
            }
            assert not fallen
            last = found

    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        table = await db.create_table("flights", partitions=2)

        async def write() -> None:
            for number in range(200):
                await table.put(b"%d" % number, b"v")

        await asyncio.gather(write(), *(scrape_often() for _ in range(10)))


async def test_a_read_that_waits_is_counted(server: SingleServer) -> None:
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        table = await db.create_table("flights", partitions=1)
        (replica,) = server.data_plane.node
        async with replica.versions.lock:  # nothing is applied meanwhile
            done = await table.put(b"k", b"v")
            reading = asyncio.ensure_future(table.get(b"k", after=done.token))
            waits = server.data_plane.times.waits

            async def is_waiting() -> bool:
                return len(replica.progress._waiters) == 1

            await until_true(is_waiting)
            assert waits.read().counts[-1] == 0
        assert await reading == b"v"
    assert waits.read().counts[-1] == 1
    assert value(await scraped(server.http_port), "duramen_read_wait_seconds_count") == 1


@pytest.mark.embedded_log_only  # its figures of the log are of one in this process
async def test_damage_is_seen(server: SingleServer) -> None:
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        await db.create_table("flights", partitions=1)
    (replica,) = server.data_plane.node
    replica.failure = IndexDamaged("a page does not hold")

    async def is_seen() -> bool:
        found = await scraped(server.http_port)
        return found.get(("duramen_partition_damaged", frozenset({("table", "flights"), ("partition", "0")}))) == 1

    await until_true(is_seen)
    assert value(await scraped(server.http_port), "duramen_log_damages") == 0


async def test_users_see_their_tables(server: SingleServer) -> None:
    catalog: Any = server.data_plane.catalog
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        for name in ("orders", "secret"):
            await db.create_table(name, partitions=1)
    token = mint_token("alice")
    await catalog.submit(AddUser("root", catalog.map.version, "", ("admin *",)))
    await catalog.submit(AddUser("alice", catalog.map.version, "", ("read orders",)))
    await catalog.submit(AddToken("alice", catalog.map.version, token.id, token.sha256, 0))
    code, _, body = await http_get(server.http_port, "/metrics")
    assert (code, b"duramen_" in body) == (401, False)
    tables: set[str] = set()

    async def is_seen() -> bool:
        nonlocal tables
        found = await scraped(server.http_port, f"Authorization: {bearer_header(token.text)}")
        tables = {dict(labels)["table"] for _, labels in found if "table" in dict(labels)}
        return "orders" in tables

    await until_true(is_seen)
    assert "secret" not in tables


async def test_a_web_page_of_another_name_reads_no_metrics(server: SingleServer) -> None:
    code, _, body = await http_get(server.http_port, "/metrics", host="evil.example")
    assert (code, b"duramen_" in body) == (403, False)


async def test_openmetrics_and_hostile_headers(server: SingleServer) -> None:
    _, fields, body = await http_get(
        server.http_port, "/metrics", "Accept: application/openmetrics-text; version=1.0.0"
    )
    assert fields["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith(b"# EOF\n")
    for accepted in ("text/plain;version=x.y;escaping=;;", "application/openmetrics-text;version=" + "9" * 5000):
        assert (await http_get(server.http_port, "/metrics", f"Accept: {accepted}"))[0] == 200


async def test_two_servers_share_nothing(server: SingleServer, tmp_path: Path) -> None:
    other = await SingleServer.open(tmp_path / "other", port=0)
    try:
        await other.serve_http(0)
        async with await aio.connect(f"127.0.0.1:{other.port}") as db:
            table = await db.create_table("flights", partitions=1)
            for _ in range(20):
                await table.put(b"k", b"v")
        mine, others = await scraped(server.http_port), await scraped(other.http_port)
        assert value(others, "duramen_write_seconds_count") >= 20 > value(mine, "duramen_write_seconds_count")
        assert not [family.name for family in REGISTRY.collect() if family.name.startswith("duramen")]
    finally:
        await other.close()


@pytest.mark.embedded_log_only  # its figures of the log are of one in this process
async def test_the_documentation_lists_what_is_served(server: SingleServer) -> None:
    section = OPERATIONS.read_text().split("\n### Metrics\n")[1].split("\nHealth: ")[0]
    listed: dict[str, str] = {}
    for line in section.splitlines():
        if line.startswith("| `duramen_"):
            names, kind = line.split("|")[1:3]
            listed.update(dict.fromkeys(re.findall(r"`(duramen_\w+)`", names), kind.strip()))
    whole = metrics_to_text(status_of_server(observed_whole()), measured_whole()).body.decode()
    assert dict(re.findall(r"^# TYPE (\S+) (\S+)$", whole, re.MULTILINE)) == listed
    _, _, body = await http_get(server.http_port, "/metrics")
    served = dict(re.findall(r"^# TYPE (\S+) (\S+)$", body.decode(), re.MULTILINE))
    assert served.items() <= listed.items()
    assert len(served) > 25
