"""The server of the log, another process, is seen by routers and nodes: its clock, its disk, and whether it answers."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import until_true
from kit.http import http_get
from kit.log.sample_batches import plain_batch
from kit.set_clock import SetClock
from kit.whole_server import observed_whole

from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from duramen.server.sight.log_watch import seen_of
from duramen.server.sight.observed import CertificateExpiry, LogServerSeen
from duramen.server.sight.status_document import status_of_server, status_to_json
from log_tier.concurrency.clocks import SYSTEM_CLOCK

pytestmark = pytest.mark.embedded_log_only  # the clusters here have a log process of their own

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
BEFORE = LogServerSeen("log:7071", True, "", 5, 1, 2, "a word of before")


@asynccontextmanager
async def cluster_at(folder: Path, wrong_by_ms: int = 0) -> AsyncIterator[tuple[LogRole, NodeRole, RouterRole]]:
    """A log whose clock is wrong, a node and a router."""
    async with AsyncExitStack() as opened:
        clock = SetClock(lambda: SYSTEM_CLOCK.wall_ms() + wrong_by_ms)
        log = await LogRole.open(folder / "log", host="127.0.0.1", port=0, clock=clock)
        opened.push_async_callback(log.close)
        url = f"grpc://127.0.0.1:{log.port}"
        node = await NodeRole.open(folder / "n1", node_id="n1", log_url=url, host="127.0.0.1", port=0)
        opened.push_async_callback(node.close)
        router = await RouterRole.open(log_url=url, host="127.0.0.1", port=0)
        opened.push_async_callback(router.close)
        for role in (node, router):
            await role.serve_http(0)
        yield log, node, router


async def document_of(role: NodeRole | RouterRole) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await http_get(role.http_port, "/status"))[2])
    return found


async def test_its_wrong_clock_is_named_by_a_router_and_by_a_node(tmp_path: Path) -> None:
    async with cluster_at(tmp_path, HOUR_MS) as (_, node, router):
        for role, what in (
            (router, "the clock of the log's server is 1 h ahead of the others"),
            (node, "the clocks of the log's server and of this server, n1, differ by 1 h"),
        ):

            async def is_named(role: NodeRole | RouterRole = role, what: str = what) -> bool:
                return [each["what"] for each in (await document_of(role))["troubles"]] == [what]

            await until_true(is_named)
            assert (await http_get(role.http_port, "/readyz"))[0] == 200
            metrics = (await http_get(role.http_port, "/metrics"))[2].decode()
            assert 'duramen_trouble{kind="clock_wrong"} 1.0' in metrics
            (skew_s,) = re.findall(r"^duramen_log_server_clock_skew_seconds (\S+)$", metrics, re.MULTILINE)
            assert abs(float(skew_s) - 3600) <= 3


async def test_its_disk_is_known_and_one_that_is_gone_says_nothing_more(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as (log, node, router):
        for role in (node, router):

            async def is_seen(role: NodeRole | RouterRole = role) -> bool:
                return (await document_of(role))["log_server"] is not None

            await until_true(is_seen)
            seen = (await document_of(role))["log_server"]
            assert (await document_of(role))["log_place"] == "server"
            assert (seen["address"], seen["alive"]) == (f"127.0.0.1:{log.port}", True)
            assert (seen["disk_full_bytes"], seen["stopped"]) == (shutil.disk_usage(tmp_path).total, None)
            assert abs(seen["clock_skew_s"]) <= 3
            metrics = (await http_get(role.http_port, "/metrics"))[2].decode()
            assert "duramen_log_server_up 1.0" in metrics
            size = re.findall(r"^duramen_log_server_disk_size_bytes (\S+)$", metrics, re.MULTILINE)
            assert list(map(float, size)) == [shutil.disk_usage(tmp_path).total]
        await log.close()

        async def is_gone() -> bool:
            return not (await document_of(router))["log_server"]["alive"]

        await until_true(is_gone)
        reason = (await document_of(router))["log_server"]["reason"]
        assert reason
        assert "duramen up" not in reason, "there is another thing to do first"
        metrics = (await http_get(router.http_port, "/metrics"))[2].decode()
        assert "duramen_log_server_up 0.0" in metrics
        assert "duramen_log_server_disk_size_bytes" not in metrics, "it is not known now"


async def test_its_queue_and_its_syncs_are_on_the_night_page_of_every_server(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as (log, node, router):
        await log.log.create_topic("orders", partitions=1)
        (topic,) = [each for each in await log.log.topics() if each.name == "orders"]

        async def is_known_at(role: NodeRole | RouterRole) -> bool:
            await log.log.append(topic.partition(0), plain_batch("k"))
            seen = (await document_of(role))["log_server"]
            return seen is not None and seen["sync_p99_s"] is not None

        for role in (node, router):
            await until_true(partial(is_known_at, role))
            seen = (await document_of(role))["log_server"]
            assert 0 < seen["sync_p99_s"] < 60
            assert seen["queue_age_s"] >= 0

            async def is_kept(role: NodeRole | RouterRole = role) -> bool:
                found = json.loads((await http_get(role.http_port, "/history?since=-60&step=1"))[2])["server"]
                return all(any(value is not None for value in found[name]) for name in ("sync_p99_s", "queue_age_s"))

            await until_true(is_kept)


async def test_a_log_in_this_process_has_no_other_server(tmp_path: Path) -> None:
    node = await NodeRole.open(
        tmp_path / "n1", node_id="n1", log_url=f"file://{tmp_path}/log", host="127.0.0.1", port=0
    )
    try:
        assert json.loads(await node.sight.status_json())["log_server"] is None
    finally:
        await node.close()


def log_document(**more: object) -> dict[str, object]:
    disk = {"folder": "/data", "free_bytes": 10, "full_bytes": 20}
    return {"format": 1, "now_ms": NOW_MS + 90_400, "disk": disk, "log": {"stopped": None}} | more


def test_what_a_document_says() -> None:
    seen = seen_of(json.dumps(log_document()).encode(), BEFORE, now_ms=NOW_MS)
    assert seen == LogServerSeen("log:7071", True, "", 90, 10, 20, None)
    without = log_document(disk=None, log={"stopped": "EIO" * 1000})
    seen = seen_of(json.dumps(without).encode(), BEFORE, now_ms=NOW_MS)
    assert (seen.disk_free_bytes, seen.disk_full_bytes) == (None, None)
    assert seen.stopped == "EIO" * 100, "so much of it as a person reads"
    seen = seen_of(json.dumps(log_document(log={"stopped": "\ud800!"})).encode(), BEFORE, now_ms=NOW_MS)
    assert seen.stopped == "?!", "what is no text would be in no document"


def test_its_certificates_are_what_it_says_of_them() -> None:
    own = {"name": "log", "kind": "server", "expires_ms": NOW_MS + 5}
    seen = seen_of(json.dumps(log_document(certificates=[own])).encode(), BEFORE, now_ms=NOW_MS)
    assert seen.certificates == (CertificateExpiry("log", "server", NOW_MS + 5),)
    many = [own | {"name": f"n{number}\ud800" + "x" * 1000} for number in range(1000)]
    seen = seen_of(json.dumps(log_document(certificates=many)).encode(), BEFORE, now_ms=NOW_MS)
    assert len(seen.certificates) == 8, "a server has two"
    assert max(len(each.name) for each in seen.certificates) == 300
    json.dumps([each.name for each in seen.certificates], ensure_ascii=False).encode()
    assert seen_of(json.dumps(log_document()).encode(), BEFORE, now_ms=NOW_MS).certificates == ()


def test_what_a_server_writes_is_what_is_read() -> None:
    status = status_of_server(replace(observed_whole(), now_ms=NOW_MS))
    seen, own = seen_of(status_to_json(status), BEFORE, now_ms=NOW_MS), status.observed
    assert own.disk is not None
    disk = own.disk.free_bytes, own.disk.full_bytes
    expected = LogServerSeen("log:7071", True, "", 0, *disk, None, own.certificates)
    assert seen == replace(expected, queue_age_s=0.5, queued_batches=1, queued_bytes=2, sync_p99_s=0.004)


def test_an_older_server_says_nothing_of_its_queue() -> None:
    older = log_document(log={"stopped": None, "queued_batches": 7, "queued_bytes": 8})
    seen = seen_of(json.dumps(older).encode(), BEFORE, now_ms=NOW_MS)
    assert (seen.alive, seen.queue_age_s, seen.queued_batches, seen.sync_p99_s) == (True, None, None, None)
    quiet = log_document(log={"stopped": None, "queued_batches": 7, "queued_bytes": 8, "queue_age_s": 0})
    seen = seen_of(json.dumps(quiet).encode(), BEFORE, now_ms=NOW_MS)
    assert (seen.queue_age_s, seen.queued_batches, seen.queued_bytes, seen.sync_p99_s) == (0.0, 7, 8, None)


WRONG: Sequence[dict[str, object]] = (
    {"format": 2}, {"now_ms": None}, {"now_ms": 1e300}, {"now_ms": -1}, {"now_ms": 1 << 70}, {"now_ms": True},
    {"disk": {}}, {"disk": 7}, {"disk": {"free_bytes": "x", "full_bytes": 1}}, {"log": []}, {"certificates": 7},
    {"certificates": {}}, {"certificates": [{"name": "x", "kind": "ca"}]}, {"certificates": [None]},
    {"certificates": [{"name": 7, "kind": "ca", "expires_ms": 1}]}, {"log": {"stopped": 7}},
)  # fmt: skip
WRONG_QUEUES: Sequence[dict[str, object]] = (
    {"queue_age_s": -1}, {"queue_age_s": None}, {"queue_age_s": float("inf")}, {"queue_age_s": float("nan")},
    {"queue_age_s": True}, {"queued_batches": 1.5}, {"sync_p99_s": "1"}, {"sync_p99_s": 1e300},
)  # fmt: skip
QUEUE = {"stopped": None, "queued_batches": 1, "queued_bytes": 1, "queue_age_s": 1}
WRONG_LOGS: Sequence[dict[str, object]] = [{"log": QUEUE | each} for each in WRONG_QUEUES]
UNREADABLE = (b"", b"\xff", b"[]", b"null", b"7", b"[" * 100_000)


@pytest.mark.parametrize(
    "document", [*UNREADABLE, *(json.dumps(log_document(**each)).encode() for each in (*WRONG, *WRONG_LOGS))]
)
def test_a_document_that_cannot_be_read_changes_nothing_but_that(document: bytes) -> None:
    seen = seen_of(document, BEFORE, now_ms=NOW_MS)
    assert seen == replace(BEFORE, alive=False, reason="its status is none that this release can read")
