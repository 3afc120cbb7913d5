"""FLUSHDB while the router that was asked, or a node that has to be ready, is killed: the nodes carry it to its end."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from kit.client.command_line import run_here
from kit.cluster.up_cluster import NODES, UpCluster
from kit.deadlines import patience_s, wait_until

pytestmark = pytest.mark.embedded_log_only

KEYS = [f"key{number}" for number in range(300)]
NODE_NAMES = [f"n{number}" for number in range(1, NODES + 1)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[UpCluster]:
    """Each test kills one of its processes."""
    made = UpCluster(tmp_path)
    try:
        yield made
    finally:
        with suppress(ProcessLookupError):
            os.kill(made.pids["n3"], signal.SIGCONT)
        made.close()


def clients_of(cluster: UpCluster) -> dict[str, Any]:
    return {name: redis.Redis(port=cluster.endpoints[name]) for name in NODE_NAMES}


def clearings(cluster: UpCluster) -> dict[int, str]:
    """The jobs that clear, and their states, as a node says that is left alone."""
    answer = run_here("admin", "jobs", "--json", at=f"127.0.0.1:{cluster.ports['n1']}").stdout
    return {job["job"]: job["state"] for job in map(json.loads, answer.splitlines()) if job["kind"] == "clear"}


def begin(cluster: UpCluster) -> tuple[socket.socket, int]:
    """FLUSHDB at the router while n3 is held; the connection that waits for the reply, and the job."""
    known = clearings(cluster)
    os.kill(cluster.pids["n3"], signal.SIGSTOP)
    asked = socket.create_connection(("127.0.0.1", cluster.endpoints["router"]), timeout=patience_s(60))
    asked.sendall(b"*1\r\n$7\r\nFLUSHDB\r\n")
    begun: set[int] = set()

    def found() -> bool:
        begun.update(clearings(cluster).keys() - known.keys())
        return bool(begun)

    wait_until(found, what="the clearing begins")
    return asked, begun.pop()


def holds(client: Any, wanted: dict[str, bytes]) -> bool:
    found = client.mget([*KEYS, "since"])
    return {key: value for key, value in zip([*KEYS, "since"], found, strict=True) if value is not None} == wanted


def test_the_router_is_killed(cluster: UpCluster) -> None:
    """It would have given the clearing up after its deadline; what is written since the request stays."""
    clients = clients_of(cluster)
    clients["n1"].mset(dict.fromkeys(KEYS, "x"))
    asked, job = begin(cluster)
    with closing(asked):
        os.kill(cluster.pids["router"], signal.SIGKILL)
        assert clearings(cluster)[job] == "running"
        clients["n1"].set("since", "y")
        os.kill(cluster.pids["n3"], signal.SIGCONT)
        wait_until(lambda: clearings(cluster)[job] == "done", what="the nodes carry it to its end")
    for name, client in clients.items():
        wait_until(partial(holds, client, {"since": b"y"}), what=f"{name} is cleared")
        client.close()


def test_a_node_is_killed(cluster: UpCluster) -> None:
    """It is ready when it is back; or the caller is told that nothing was cleared, which is so."""
    clients = clients_of(cluster)
    clients["n1"].mset(dict.fromkeys([*KEYS, "since"], "x"))
    asked, job = begin(cluster)
    with closing(asked):
        os.kill(cluster.pids["n3"], signal.SIGKILL)
        reply = asked.recv(1000)
    state = clearings(cluster)[job]
    assert (reply.split()[0], state) in ((b"+OK", "done"), (b"-TRYAGAIN", "aborted")), (reply, state)
    wanted = {} if state == "done" else dict.fromkeys([*KEYS, "since"], b"x")
    for name, client in clients.items():
        wait_until(partial(answers, client), what=f"{name} is there")
        wait_until(partial(holds, client, wanted), what=f"{name} holds what was told")
        client.close()


def answers(client: Any) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
