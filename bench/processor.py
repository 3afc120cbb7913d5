"""The server's processor time for a command, beside that of another checkout.

    python -m bench.processor ../other [put_1 'resp_set_*' …] [--pairs 8] [--calls 1.0]

A server of the other checkout and one of this run on empty folders and get the same calls, for each pair one workload
after the other, the two servers in turn; which of them is first changes from pair to pair, and every four pairs both
start anew. What counts is the
server's user and system time, all threads, apply included, so other work on the machine disturbs it far less than wall
time. For each workload the report has both medians in microseconds for a command, and the median and the quartiles of
the pairs' ratios: below 1 this checkout takes less.

The other checkout is a folder with a virtual environment in `.venv` (`make test` makes it). Its server and its gRPC
client are started from there. `put` and `get` are `duramen.aio`'s, and the processor time of their client has a line of
its own. RESP is driven by `redis-benchmark`: 100-byte values, 10,000 keys.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from bench.redis_benchmark import Load, run_load
from bench.server_process import ServerProcess, free_port

__all__ = ["main"]

_GRPC_CALLS: Final = Path(__file__).with_name("grpc_calls.py")
_KEYS: Final = 10_000
_QUIET_S: Final = 0.05
"""What is applied behind the acknowledgement is done when the server takes less than a tenth of such a time."""
_QUIET_TIMES_MAX: Final = 40

_PAIRS_OF_A_SERVER: Final = 4
"""Then both servers start anew on empty folders: what one process happens to get (its memory's layout, the size of its
files) would otherwise be a part of every pair's ratio."""

_KEY: Final = "key:__rand_int__"
_MSET: Final = ("MSET", *(word for _ in range(10) for word in (_KEY, "v" * 100)))


class Work(NamedTuple):
    """What is called and how often."""

    calls: int
    callers: int
    resp: tuple[str, ...] = ()
    """A command of `redis-benchmark`; empty: a call of `duramen.aio`, named before the `_` of the workload's name."""
    pipelined: int = 1


_WORKLOADS: Final = {
    "put_1": Work(300, 1),
    "put_64": Work(4_000, 64),
    "get_1": Work(500, 1),
    "get_64": Work(10_000, 64),
    "resp_set_1": Work(800, 1, ("set",)),
    "resp_set_50": Work(6_000, 50, ("set",)),
    "resp_set_50_p16": Work(20_000, 50, ("set",), 16),
    "resp_get_1": Work(10_000, 1, ("get",)),
    "resp_get_50": Work(15_000, 50, ("get",)),
    "resp_get_50_p16": Work(60_000, 50, ("get",), 16),
    "resp_incr_1": Work(400, 1, ("INCR", "counter:__rand_int__")),
    "resp_incr_50": Work(3_000, 50, ("INCR", "counter:__rand_int__")),
    "resp_mset_1": Work(400, 1, _MSET),
    "resp_mset_50": Work(1_500, 50, _MSET),
}
"""Each takes some 0.3 s of processor time: the sides change so often that other work on the machine hits both."""


class _Cost(NamedTuple):
    """Microseconds of processor time for a command."""

    server: float
    client: float | None


class _Server:
    """A server of one checkout, and its gRPC clients."""

    def __init__(self, programs: Path, folder: Path) -> None:
        """`programs`: where the checkout's virtual environment has its programs."""
        self._programs = programs
        self._port, self._resp_port = free_port(), free_port()
        ports = ["--port", str(self._port), "--resp-port", str(self._resp_port)]
        command = [str(programs / "duramen"), "up", "--data", str(folder / "data"), *ports]
        self._process = asyncio.run(ServerProcess.start(command, port=self._port, folder=folder))
        self._clients: dict[str, subprocess.Popen[str]] = {}
        self._warm: set[str] = set()

    def stop(self) -> None:
        for client in self._clients.values():
            client.communicate()
        asyncio.run(self._process.stop())

    def measure(self, name: str, work: Work, calls: int) -> _Cost:
        """Make the calls; before the first of them, a tenth as many that warm up."""
        client_us = None
        if work.resp:
            load = Load(work.resp, work.callers, _KEYS, work.pipelined)
            if name not in self._warm:
                self._warm.add(name)
                self._run(load, max(work.callers, calls // 10))
            began_s = self._processor_s()
            self._run(load, calls)
        else:
            client = self._clients.get(name) or self._start_client(name, work, calls)
            assert client.stdin is not None
            assert client.stdout is not None
            began_s = self._processor_s()
            client.stdin.write("\n")
            client.stdin.flush()
            client_us = float(client.stdout.readline())
        self._wait_quiet()
        return _Cost((self._processor_s() - began_s) / calls * 1e6, client_us)

    def _start_client(self, name: str, work: Work, calls: int) -> subprocess.Popen[str]:
        client = self._clients[name] = subprocess.Popen(
            [
                *(self._programs / "python", "-P", _GRPC_CALLS),
                *(f"127.0.0.1:{self._port}", name.split("_")[0], str(work.callers), str(calls)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n", f"the client of {self._programs} failed"
        self._wait_quiet()
        return client

    def _run(self, load: Load, requests: int) -> None:
        asyncio.run(run_load(load, port=self._resp_port, requests=requests))

    def _wait_quiet(self) -> None:
        for _ in range(_QUIET_TIMES_MAX):
            before_s = self._processor_s()
            time.sleep(_QUIET_S)
            if self._processor_s() - before_s < _QUIET_S / 10:
                return

    def _processor_s(self) -> float:
        """User and system time of all its threads, those that ended included, in nanoseconds' steps.

        Linux numbers the clock of a process so (`clock_getcpuclockid`); what /proc has of it comes in hundredths.
        """
        return time.clock_gettime((~self._process.pid << 3) | 2)


@contextmanager
def _servers(checkouts: Sequence[Path], parent: Path) -> Iterator[list[_Server]]:
    with tempfile.TemporaryDirectory(prefix="duramen-bench-", dir=parent) as folder:
        started: list[_Server] = []
        try:
            for number, programs in enumerate(checkouts):
                own = Path(folder) / str(number)
                own.mkdir()
                started.append(_Server(programs, own))
            yield started
        finally:
            for server in started:
                server.stop()


def _report(name: str, other: list[float], this: list[float]) -> None:
    ratios = [mine / theirs for mine, theirs in zip(this, other, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    print(
        f"{name:22} {statistics.median(other):9.1f} µs → {statistics.median(this):9.1f} µs   "
        f"{middle:.3f} ({low:.3f} to {high:.3f})",
        flush=True,
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for; a line for each workload, and one for its client where that is ours."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.processor", description="Compare the server's processor time with another checkout's."
    )
    parser.add_argument("other", type=Path, metavar="CHECKOUT", help="a folder with a virtual environment in .venv")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(_WORKLOADS)}; or patterns")
    parser.add_argument("--pairs", type=int, default=8, help="how often each workload is measured at both (8)")
    parser.add_argument("--calls", type=float, default=1.0, help="a factor: calls of each measurement (1.0)")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the data are (the temporary folder)"
    )
    options = parser.parse_args(arguments)
    chosen = {
        name: work
        for name, work in _WORKLOADS.items()
        if not options.workloads or any(fnmatchcase(name, pattern) for pattern in options.workloads)
    }
    if not chosen or options.pairs < 1:
        parser.error(f"no workload matches {options.workloads}, or no pair is wanted: {options.pairs}")
    costs: dict[str, tuple[list[_Cost], list[_Cost]]] = {name: ([], []) for name in chosen}
    checkouts = (options.other.absolute() / ".venv/bin", Path(sys.executable).parent)
    for begin in range(0, options.pairs, _PAIRS_OF_A_SERVER):
        with _servers(checkouts, options.folder) as servers:
            for pair in range(begin, min(begin + _PAIRS_OF_A_SERVER, options.pairs)):
                for name, work in chosen.items():
                    calls = max(work.callers, int(work.calls * options.calls))
                    for side in (0, 1) if pair % 2 else (1, 0):
                        costs[name][side].append(servers[side].measure(name, work, calls))
                print(f"pair {pair + 1} of {options.pairs}", file=sys.stderr, flush=True)
    for name, (other, this) in costs.items():
        _report(name, [each.server for each in other], [each.server for each in this])
        clients = [[each.client for each in side if each.client is not None] for side in (other, this)]
        if clients[0]:
            _report(f"{name} (client)", *clients)
    return 0


if __name__ == "__main__":
    sys.exit(main())
