"""Three serving nodes: one is killed under load, one is restored from a snapshot, a fourth one joins. `make demo`.

Every process is real, and so is every signal. Every claim is checked; the first one that does not hold ends the demo
with exit code 1.

    python examples/three_nodes.py
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rich.console import Console

import duramen
from duramen.blocking import Database, Table

KEYS: Final = 120_000
PARTITIONS: Final = 6

# How long anything in this demo may take before it counts as broken.
PATIENCE_S: Final = 60.0

console = Console(highlight=False, soft_wrap=True)


def step(number: int, text: str) -> None:
    console.print(f"\n[bold]{number}. {text}[/bold]")


def say(text: str) -> None:
    console.print(f"   {text}", markup=False)


def claim(holds: bool, text: str) -> None:
    console.print(f"   {'[green]✓[/green]' if holds else '[red]✗[/red]'} ", end="")
    console.print(text, markup=False)
    if not holds:
        raise SystemExit(1)


class Cluster:
    """`duramen up --nodes 3`, and what it says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.children: dict[str, dict[str, Any]] = {}
        self.port = 0
        command = [
            sys.executable,
            "-m",
            "duramen",
            "up",
            "--nodes",
            "3",
            "--data",
            str(folder),
            "--port",
            "0",
            "--json",
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._extra: list[subprocess.Popen[bytes]] = []
        threading.Thread(target=self._listen, daemon=True).start()
        wait(lambda: self.port > 0, "the cluster starts")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "child":
                self.children[event["name"]] = event
            elif event["event"] == "started":
                self.port = event["port"]

    @property
    def at(self) -> str:
        return f"localhost:{self.port}"

    def kill(self, name: str) -> None:
        os.kill(self.children[name]["pid"], signal.SIGKILL)

    def wait_back(self, name: str, pid: int) -> None:
        wait(lambda: self.children[name]["pid"] != pid, f"{name} is started again")

    def add_node(self, name: str) -> None:
        """A node of the same cluster, started by hand: in life, on another machine."""
        log = f"grpc://127.0.0.1:{self.children['log']['port']}"
        command = [sys.executable, "-m", "duramen", "serve", "node", "--id", name, "--port", "0", "--json"]
        store = (self.folder / "snapshots").absolute().as_uri()
        data = str(self.folder / "nodes" / name)
        self._extra.append(
            subprocess.Popen([*command, "--data", data, "--log", log, "--snapshots", store], stdout=subprocess.DEVNULL)
        )

    def admin(self, *arguments: str, show: bool = True) -> str:
        """A command of an operator; its words are shown."""
        if show:
            say(f"$ duramen admin {' '.join(arguments)}")
        done = subprocess.run(
            [sys.executable, "-m", "duramen", "admin", *arguments, "--at", self.at],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "110"},
        )
        if show:
            for line in done.stdout.splitlines():
                say(f"  {line}")
        claim_quietly(done.returncode == 0, f"admin {arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def close(self) -> None:
        processes: list[subprocess.Popen[Any]] = [*self._extra, self._process]
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(PATIENCE_S)


def claim_quietly(holds: bool, text: str) -> None:
    if not holds:
        claim(False, text)


def wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        claim_quietly(time.monotonic() < deadline, f"{what} within {PATIENCE_S:g} s")
        time.sleep(0.02)


class Reader:
    """Reads and writes all the time, each read with the token of the newest write, and remembers the worst."""

    def __init__(self, at: str) -> None:
        self._at = at
        self._stop = threading.Event()
        self.reads = self.failures = self.stale = 0
        self.slowest_ms = 0.0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with duramen.connect(self._at) as writer, duramen.connect(self._at) as reader:
            written, read = writer.table("flights"), reader.table("flights")
            while not self._stop.is_set():
                key, value = b"now%d" % (self.reads % 50), b"%d" % self.reads
                done = written.put(key, value)
                began = time.monotonic()
                try:
                    self.stale += read.get(key, after=done.token) != value
                except duramen.DuramenError:
                    self.failures += 1
                self.slowest_ms = max(self.slowest_ms, (time.monotonic() - began) * 1000)
                self.reads += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def fill(database: Database) -> Table:
    table = database.create_table("flights", partitions=PARTITIONS, replicas=2)
    table.put_many((b"flight%d" % number, b"on time, flight %d" % number) for number in range(KEYS))
    return table


def run(folder: Path) -> None:
    step(1, "A log, three nodes, a router: six processes with the supervisor")
    began = time.monotonic()
    cluster = Cluster(folder)
    try:
        for name, child in sorted(cluster.children.items()):
            say(f"{name:<7} pid {child['pid']}, port {child['port']}")
        claim(True, f"started in {time.monotonic() - began:.1f} s")
        with duramen.connect(cluster.at) as database:
            table = fill(database)
            kill_one(cluster)
            restore_one(cluster, table)
            let_one_join(cluster, table)
            step(5, "Do all replicas hold the same?")
            cluster.admin("verify", "flights")
            claim(sum(1 for _ in table.scan(prefix=b"flight")) == KEYS, f"all {KEYS:,} keys are there")
    finally:
        cluster.close()
    console.print("\n[bold green]All of it held.[/bold green]")


def kill_one(cluster: Cluster) -> None:
    step(2, "A node is killed under reads and writes")
    cluster.admin("partitions", "flights")
    reader = Reader(cluster.at)
    wait(lambda: reader.reads > 200, "reads begin")
    before, pid = reader.reads, int(cluster.children["n2"]["pid"])
    say("$ kill -9 n2")
    cluster.kill("n2")
    cluster.wait_back("n2", pid)
    wait(lambda: reader.reads > before + 500, "reads go on")
    reader.stop()
    claim(
        reader.failures == 0,
        f"{reader.reads:,} reads, {reader.failures} failed; the slowest took {reader.slowest_ms:.0f} ms",
    )
    claim(reader.stale == 0, "each saw the write whose token it carried, at whichever replica")


def restore_one(cluster: Cluster, table: Table) -> None:
    step(3, "A node loses its disk")
    cluster.admin("snapshot", "flights")
    table.put(b"after", b"the snapshot")
    pid = int(cluster.children["n2"]["pid"])
    index = cluster.folder / "nodes" / "n2" / "index"
    say("$ rm -r n2's index; kill -9 n2")
    shutil.rmtree(index)
    cluster.kill("n2")
    cluster.wait_back("n2", pid)
    began = time.monotonic()
    wait(lambda: '"ready": 4' in nodes_of(cluster, "n2"), "n2 is ready again")
    claim(True, f"n2 has fetched its replicas again and is level with the log after {time.monotonic() - began:.1f} s")
    cluster.admin("lag", "flights")


def nodes_of(cluster: Cluster, name: str) -> str:
    lines = cluster.admin("nodes", "--json", show=False).splitlines()
    return next((line for line in lines if f'"{name}"' in line), "")


def let_one_join(cluster: Cluster, table: Table) -> None:
    step(4, "A fourth node joins")
    cluster.add_node("n4")
    wait(lambda: "n4" in cluster.admin("nodes", show=False), "n4 registers")
    cluster.admin("partitions", "flights")
    cluster.admin("rebalance")
    after = cluster.admin("partitions", "flights")
    claim("n4" in after, "n4 has its share, and nobody else moved more than that")
    claim(table.get(b"after") == b"the snapshot", "what was written is there")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="duramen-demo-") as temporary:
        run(Path(temporary) / "data")
