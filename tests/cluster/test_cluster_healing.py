"""A node that is killed and does not come back: real processes, started by hand, so that nobody starts it again."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.client.server_process import read_line
from kit.deadlines import patience_s, wait_until, within
from kit.warm.warm_process import WarmProcess, run_warm

import duramen
from router.admin.client import AdminConnection
from router.proto import admin_pb2 as pb

DEADLINE_S = 60.0
NODES = ("n1", "n2", "n3", "n4")
KEYS = [b"UA%d" % number for number in range(200)]


class ByHand:
    """A log, four nodes and a router that heals. `close()` leaves no process behind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.log_port, self.at = 0, ""

    def start(self, heal_after_s: int | None = None) -> None:
        """Start all, and wait until the router hears of each node. On a busy machine one is lost later."""
        seconds = heal_after_s or round(patience_s(1))
        self.log_port = self._start("log", "log", "--data", str(self._folder / "log"))
        for node in NODES:
            self.start_node(node)
        self.at = f"127.0.0.1:{self._start('router', 'router', *self._log(), '--heal-after', str(seconds))}"
        alive = ["alive"] * len(NODES)
        wait_until(lambda: [each["state"] for each in self.rows("nodes")] == alive, "the router knows the nodes")

    def _log(self) -> list[str]:
        return ["--log", f"grpc://127.0.0.1:{self.log_port}"]

    def start_node(self, node: str) -> None:
        self._start(node, "node", *self._log(), "--id", node, "--data", str(self._folder / node))

    def _start(self, name: str, role: str, *arguments: str) -> int:
        """Start a process; its port."""
        command = [sys.executable, "-m", "duramen", "serve", role, "--port", "0", "--json", *arguments]
        with (self._folder / f"{name}.err").open("ab") as errors:
            process = WarmProcess[bytes](command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        self._processes[name] = process
        line = read_line(process, DEADLINE_S)
        assert line, (self._folder / f"{name}.err").read_text()[-2000:]
        return int(json.loads(line)["port"])

    def signal(self, name: str, number: int) -> None:
        self._processes[name].send_signal(number)

    def kill9(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.communicate()

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """What `duramen admin … --json` says."""
        command = [sys.executable, "-m", "duramen", "admin", *arguments, "--at", self.at, "--json"]
        done = run_warm(command, text=True, timeout=patience_s(DEADLINE_S))
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def copies(self) -> list[set[str]]:
        """The nodes at which each partition is ready."""
        return [
            {replica["node"] for replica in each["replicas"] if replica["state"] == "ready"}
            for each in self.rows("partitions", "flights")
        ]

    def close(self) -> None:
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in self._processes.values():
            try:
                process.communicate(timeout=patience_s(DEADLINE_S))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ByHand]:
    made = ByHand(tmp_path)
    try:
        yield made
    finally:
        made.close()


async def began(at: str) -> pb.AdminJob:
    """The healing, as soon as it is there."""
    async with AdminConnection(at, timeout=DEADLINE_S) as admin, within(DEADLINE_S):
        while not (jobs := [job for job in await admin.jobs() if job.kind == "heal"]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return await admin.job(jobs[0].job)


def test_a_node_that_comes_back_during_its_healing_has_what_it_had(cluster: ByHand) -> None:
    """All that n2 held is at n1 as well, which is paused when the copies have begun."""
    cluster.start(heal_after_s=int(patience_s(20)))  # n1 must not be lost for so long while it is paused
    with duramen.connect(cluster.at, timeout=DEADLINE_S) as database:
        table = database.create_table("flights", partitions=4, replicas=2)
        for begin in range(0, 48_000, 1000):  # more than a new copy would rather make of the log
            table.put_many((b"key%06d" % number, b"x" * 1000) for number in range(begin, begin + 1000))
        wait_until(lambda: all(len(nodes) == 2 for nodes in cluster.copies()), "all copies are there")
        before = cluster.copies()
        cluster.kill9("n2")
        job = asyncio.run(began(cluster.at))
        cluster.signal("n1", signal.SIGSTOP)
        assert [(task.state, task.node) for task in job.task_list if task.state != "done"], "it was over too soon"
        cluster.start_node("n2")
        wait_until(lambda: cluster.rows("jobs")[0]["state"] == "aborted", "the healing is undone")
        cluster.signal("n1", signal.SIGCONT)
        wait_until(lambda: cluster.copies() == before, "each node has what it had")
        assert len(cluster.rows("jobs")) == 1
        sources = {
            each["node"]: each["source"] for row in cluster.rows("partitions", "flights") for each in row["replicas"]
        }
        assert sources["n2"] == "log", "its own index, which follows the log"
        table.put(b"key000000", b"late")
        assert table.get(b"key000000") == b"late"


def test_a_killed_node_is_healed_and_then_comes_back(cluster: ByHand) -> None:
    cluster.start()
    with duramen.connect(cluster.at, timeout=DEADLINE_S) as database:
        table = database.create_table("flights", partitions=4, replicas=2)
        table.put_many((key, b"on time") for key in KEYS)
        wait_until(lambda: all(len(nodes) == 2 for nodes in cluster.copies()), "all copies are there")
        assert sum("n2" in nodes for nodes in cluster.copies()) == 2

        cluster.kill9("n2")
        wait_until(
            lambda: all(len(nodes) == 2 and "n2" not in nodes for nodes in cluster.copies()),
            "all copies are there again",
        )
        assert table.get_many(KEYS) == [b"on time"] * len(KEYS)
        (job,) = (each for each in cluster.rows("jobs") if each["kind"] == "heal")
        assert (job["subject"], job["tasks"]) == ("node n2", 2)
        (plan,) = cluster.rows("plan")
        assert (plan["action"], plan["short"], [each["node"] for each in plan["lost"]]) == ("nothing", 0, ["n2"])

        cluster.start_node("n2")
        wait_until(
            lambda: all(each["state"] == "alive" for each in cluster.rows("nodes")), "the node is back, with nothing"
        )
        assert all("n2" not in nodes for nodes in cluster.copies())
        assert cluster.rows("plan")[0]["lost"] == []
        table.put(KEYS[0], b"late")
        assert table.get(KEYS[0]) == b"late"
