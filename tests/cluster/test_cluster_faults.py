"""What a cluster of real processes survives."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.cluster.cluster_process import DEADLINE_S, ClusterProcess
from kit.deadlines import patience_s, wait_until
from kit.warm.warm_process import WarmProcess, run_warm

import duramen

CAMPAIGN = os.environ.get("DURAMEN_CAMPAIGN") == "1"

# A node whose clock is wrong by so many seconds. Duramen asks `time_ns`; `time` is left alone, because gRPC adds its
# deadlines to it and compares them with the machine's own clock, which no test can change.
_SHIFTED = """
import os, time
_shift = float(os.environ["SHIFTED_CLOCK_S"])
_time_ns = time.time_ns
time.time_ns = lambda: _time_ns() + int(_shift * 1e9)
"""


class Load:
    """Writes, and reads with the token of each write at another connection; counts what was stale or failed."""

    def __init__(self, cluster: ClusterProcess) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self.rounds = self.stale = 0
        self.errors: list[str] = []
        self.written: dict[bytes, bytes] = {}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._cluster.connect() as writer, self._cluster.connect() as reader:
            while not self._stop.is_set():
                key, value = b"load%d" % (self.rounds % 97), b"%d" % self.rounds
                try:
                    done = writer.table("flights").put(key, value)
                    self.written[key] = value
                    self.stale += reader.table("flights").get(key, after=done.token) != value
                except duramen.DuramenError as error:
                    self.errors.append(repr(error))
                self.rounds += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def loaded(cluster: ClusterProcess) -> Iterator[Load]:
    load = Load(cluster)
    try:
        wait_until(lambda: load.rounds > 20, "the load begins")
        yield load
    finally:
        load.stop()


def serve_node(cluster: ClusterProcess, name: str, data: Path, **environment: str) -> subprocess.Popen[str]:
    log = f"grpc://127.0.0.1:{cluster.children['log']['port']}"
    command = [sys.executable, "-m", "duramen", "serve", "node", "--id", name, "--data", str(data), "--log", log]
    return WarmProcess(
        [*command, "--port", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=patience_s(DEADLINE_S))
    return process.returncode, errors


def test_every_index_is_deleted_in_turn_under_load(cluster: ClusterProcess) -> None:
    cluster.run("admin", "snapshot", "flights")
    with loaded(cluster) as load:
        for name in ("n1", "n2", "n3"):
            index = cluster.folder / "nodes" / name / "index"
            before = load.rounds
            cluster.kill9(name, before_restart=lambda index=index: shutil.rmtree(index))  # type: ignore[misc]
            cluster.wait_ready("flights")
            wait_until(lambda before=before: load.rounds > before + 20, "the load goes on")  # type: ignore[misc]
    assert (load.stale, load.errors) == (0, [])
    verified = cluster.rows("admin", "verify", "flights")
    assert [each["verdict"] for each in verified] == ["equal"] * 4
    with cluster.connect() as database:
        found = dict(database.table("flights").scan(prefix=b"load", level="strong"))
    assert found == load.written


def test_of_two_operators_one_is_refused(cluster: ClusterProcess) -> None:
    (partition,) = [each for each in cluster.rows("admin", "partitions", "flights") if each["partition"] == 0]
    first, second = sorted(replica["node"] for replica in partition["replicas"])
    target = ({"n1", "n2", "n3"} - {first, second}).pop()
    commands = [
        [sys.executable, "-m", "duramen", "admin", "move", "flights/0", source, target] for source in (first, second)
    ]
    environment = {**os.environ, "DURAMEN_AT": cluster.at}
    running = [
        WarmProcess(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
        for command in commands
    ]
    results = sorted(ended(process) for process in running)
    assert [code for code, _ in results] == [0, 4], results
    assert f"node {target} holds a replica" in results[1][1] or "are being changed by job" in results[1][1], results
    cluster.wait_ready("flights")


def test_a_second_node_of_the_same_id_is_refused(cluster: ClusterProcess, tmp_path: Path) -> None:
    code, errors = ended(serve_node(cluster, "n1", tmp_path / "another"))
    assert code == 1
    assert "node n1 is registered at" in errors
    assert "--take-over" in errors
    cluster.wait_ready("flights")


@pytest.mark.parametrize("shift_s", [3600, -3600])
def test_a_node_with_a_wrong_clock_holds_what_the_others_hold(
    cluster: ClusterProcess, tmp_path: Path, shift_s: int
) -> None:
    """Expiry is judged by the log's time, and lag by a monotonic clock."""
    (tmp_path / "sitecustomize.py").write_text(_SHIFTED)
    node = serve_node(cluster, "n4", tmp_path / "n4", PYTHONPATH=str(tmp_path), SHIFTED_CLOCK_S=str(shift_s))
    try:
        cluster.wait_nodes("alive", "n4")
        (skewed,) = [each for each in cluster.rows("admin", "nodes") if each["node"] == "n4"]
        assert abs(skewed["clock_skew_ms"] - shift_s * 1000) < 60_000, "an operator sees it"
        with cluster.connect() as database:
            table = database.create_table("clocked", partitions=2, replicas=4)
            for number in range(40):
                table.put(b"stays%d" % number, b"v", ttl=600)
                table.put(b"goes%d" % number, b"v", ttl=0.05)
            wait_until(lambda: not list(table.scan(prefix=b"goes", level="strong")), "what expires is gone")
            assert len(list(table.scan(prefix=b"stays", level="strong"))) == 40
        cluster.wait_ready("clocked")
        verified = cluster.rows("admin", "verify", "clocked")
        assert [(each["verdict"], len(each["replicas"])) for each in verified] == [("equal", 4)] * 2
    finally:
        node.terminate()
        ended(node)


def test_a_watch_from_before_the_log_learns_its_first_offset(cluster: ClusterProcess) -> None:
    with cluster.connect() as database:
        table = database.create_table("ships", partitions=1)
        token = table.put(b"first", b"v").token
        for _ in range(70):
            table.put_many((b"ship%d" % number, os.urandom(2000)) for number in range(1000))
        cluster.run("admin", "snapshot", "ships")
        cluster.run("admin", "trim", "ships", "--yes")
        (partition,) = cluster.rows("admin", "partitions", "ships")
        assert partition["earliest"] > 1, "a segment was removed"
        with pytest.raises(duramen.OffsetTrimmed) as caught:
            next(table.watch(after=token))
        assert caught.value.fields["earliest"] == partition["earliest"]


def test_a_snapshot_that_is_asked_of_a_paused_node_has_what_was_acknowledged(cluster: ClusterProcess) -> None:
    with cluster.connect() as database:
        table = database.create_table("boats", partitions=1, replicas=1)
        table.put(b"boat", b"before")
        cluster.wait_ready("boats")
        (partition,) = cluster.rows("admin", "partitions", "boats")
        (node,) = [each["node"] for each in partition["replicas"]]
        offsets: list[int] = []

        def asked() -> bool:
            """Not where the machine is so busy that the node counts as away when the command comes."""
            cluster.wait_ready("boats")
            cluster.pause(node)
            try:
                offsets.extend(table.put(b"boat%d" % number, b"v").offset for number in range(10))
                return "said nothing" not in cluster.run("admin", "snapshot", "boats", "--no-wait", code=None)
            finally:
                cluster.go_on(node)

        wait_until(asked, "a snapshot is asked of the paused node")
        wait_until(lambda: cluster.rows("admin", "snapshots", "boats"), "the snapshot is known")
        (snapshot,) = cluster.rows("admin", "snapshots", "boats")
        assert snapshot["offset"] >= offsets[-1]


@pytest.mark.campaign
def test_the_promises_hold_while_processes_are_killed_and_paused() -> None:
    seconds = 300 if CAMPAIGN else 8
    done = run_warm(
        [sys.executable, "-m", "duramen", "check", "--kill", "--seconds", str(seconds), "--seed", "campaign", "--json"],
        text=True,
        timeout=seconds + 150,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert '"violations": 0' in done.stdout
