"""Several consoles press the same button at once, at several servers: one begins, the others hear why not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import wait_until
from kit.http import CALL_HEADERS, http_post

pytestmark = pytest.mark.embedded_log_only  # the catalog decides in the same way whatever the log is

CONSOLES = 6


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    running = ClusterProcess(tmp_path_factory.mktemp("cluster") / "data", arguments=["--http-port", "0"])
    try:
        yield running
    finally:
        running.close()


def ports_of(cluster: ClusterProcess) -> list[int]:
    """The router's console, and each node's own."""
    assert cluster.started is not None
    nodes = (cluster.children[name]["http_port"] for name in ("n1", "n2", "n3"))
    return [cluster.started["http_port"], *nodes]


async def asked(port: int, method: str, request: dict[str, Any]) -> tuple[int, Any]:
    document = json.dumps({"format": 1, "method": method, "request": request}).encode()
    status, _, body = await http_post(port, "/console/call", document, *CALL_HEADERS)
    answer = json.loads(body)
    return status, answer["replies"][0] if status == 200 else answer


def pressed(cluster: ClusterProcess, method: str, *requests: dict[str, Any]) -> list[tuple[int, Any]]:
    """All requests in one moment, at one server after the other."""
    ports = ports_of(cluster)

    async def at_once() -> list[tuple[int, Any]]:
        asking = (asked(ports[at % len(ports)], method, each) for at, each in enumerate(requests))
        return list(await asyncio.gather(*asking))

    return asyncio.run(at_once())


def one_of(answers: list[tuple[int, Any]]) -> Any:
    """The reply to the one that began a job. Others were refused in plain words, or had nothing left to do."""
    seen = [(status, each.get("job"), each.get("steps"), each.get("error")) for status, each in answers]
    done = [each for status, each in answers if status == 200 and each.get("job") is not None]
    assert len(done) == 1, seen
    for status, each in answers:
        if status != 200:
            assert each["code"] not in ("internal", "unknown"), seen
            assert len(each["error"]) < 300, seen
        elif each is not done[0]:
            assert not each["steps"], seen
    return done[0]


def jobs_of(cluster: ClusterProcess, kind: str) -> list[dict[str, Any]]:
    return [each for each in cluster.rows("admin", "jobs") if each["kind"] == kind]


def wait_done(cluster: ClusterProcess, job: str | int) -> None:
    def is_done() -> bool:
        return any(each["job"] == int(job) and each["state"] == "done" for each in cluster.rows("admin", "jobs"))

    wait_until(is_done, f"job {job} is done")


def holders(cluster: ClusterProcess, table: str) -> list[str]:
    (partition,) = (each for each in cluster.rows("admin", "partitions") if each["table"] == table)
    return [each["node"] for each in partition["replicas"]]


@pytest.mark.parametrize("with_plan", [True, False])
def test_a_move(running: ClusterProcess, with_plan: bool) -> None:
    """A console sends the plan that it showed; a program may send none."""
    table = f"moved-{with_plan}".lower()
    with running.connect() as db:
        db.create_table(table, partitions=1, replicas=1).put(b"k", b"v")
    running.wait_ready(table)
    (source,) = holders(running, table)
    target = next(each for each in ("n1", "n2", "n3") if each != source)
    move = {"move": {"table": table, "partition": 0, "source": source, "target": target}}
    before = len(jobs_of(running, "move"))
    if with_plan:
        ((status, plan),) = pressed(running, "Admin/Start", {"dry_run": True, **move})
        assert status == 200, plan
        move |= {"plan": plan["plan"], "version": plan["version"]}
    begun = one_of(pressed(running, "Admin/Start", *[move] * CONSOLES))
    assert len(jobs_of(running, "move")) == before + 1
    wait_done(running, begun["job"])
    assert holders(running, table) == [target]
    with running.connect() as db:
        assert db.table(table).get(b"k") == b"v"


def test_a_drop(running: ClusterProcess) -> None:
    with running.connect() as db:
        db.create_table("dropped", partitions=2)
    running.wait_ready("dropped")
    answers = pressed(running, "Tables/Drop", *[{"name": "dropped"}] * CONSOLES)
    assert {answer.get("code", "dropped") for _, answer in answers} <= {"dropped", "table_not_found"}
    ((_, changes),) = pressed(running, "Admin/Changes", {"limit": 100})
    drops = [each for each in changes["commands"] if each["command"] == "drop-table" and not each["rejected"]]
    assert len(drops) == 1, drops
    with running.connect() as db:
        again = db.create_table("dropped", partitions=1)
        again.put(b"k", b"v")
        assert again.get(b"k") == b"v", "no later one drops the next table of this name"


def test_a_clear_and_a_change_of_replicas_of_one_table(running: ClusterProcess) -> None:
    with running.connect() as db:
        db.create_table("cleared", partitions=1, replicas=2).put(b"k", b"v")
    running.wait_ready("cleared")
    begun = one_of(pressed(running, "Admin/Start", *[{"clear": {"table": "cleared"}}] * CONSOLES))
    wait_done(running, begun["job"])
    assert len(jobs_of(running, "clear")) == 1
    change = {"set_replicas": {"table": "cleared", "replicas": 3}}
    begun = one_of(pressed(running, "Admin/Start", *[change] * CONSOLES))
    wait_done(running, begun["job"])
    assert sorted(holders(running, "cleared")) == ["n1", "n2", "n3"]
