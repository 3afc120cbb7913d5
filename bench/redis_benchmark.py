"""`redis-benchmark`, Redis' own load generator: its command line, and the CSV that it answers with.

It is one thread of C, so that a server in Python and one in C are driven at the same cost. What it says of latencies is
coarse: its histogram has buckets of 8 µs (7.0), which is what a whole GET takes. Its count per second is exact to the
millisecond of a run, so with one connection the mean time of a call is taken from that.
"""

from __future__ import annotations

import asyncio
import csv
from dataclasses import dataclass
from typing import Final

from bench.data import VALUE_BYTES
from bench.workload import find_binary

__all__ = ["BenchmarkFailed", "Load", "Result", "parse_csv", "run_load"]

_COLUMNS: Final = frozenset({"test", "rps", "p50_latency_ms", "p99_latency_ms"})
"""Those that are read here; 7.0 gives four more. Before 6.2 there were only the first two, without their heading."""


class BenchmarkFailed(RuntimeError):
    """`redis-benchmark` ended with an error (a reply that is one among them) or said something else than a result."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked, and how."""

    command: tuple[str, ...]
    """A command with its arguments; in each `__rand_int__` is a number of the key space, a new one for every request.
    It may be the name of one of the program's own tests, `get` or `set`."""
    connections: int
    keys: int
    """The size of the key space: `key:000000000000` up to the number before it."""
    pipelined: int = 1
    """Requests that a connection sends before it reads."""
    access: tuple[str, ...] = ()
    """Options by which it gets in: TLS, a user."""

    def arguments(self, *, port: int, requests: int) -> list[str]:
        """The command line behind the program's name. Values of `SET` have 100 bytes, random, all of them the same."""
        options = [
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            *self.access,
            "--csv",
            "-n",
            str(requests),
            "-c",
            str(self.connections),
        ]
        options += ["-P", str(self.pipelined), "-r", str(self.keys), "-d", str(VALUE_BYTES)]
        own_test = self.command in {("get",), ("set",)}
        return [*options, "-t", *self.command] if own_test else [*options, *self.command]


@dataclass(frozen=True, slots=True)
class Result:
    """What one run said."""

    per_second: float
    """Requests; a pipeline of 16 counts as 16."""
    p50_us: float
    p99_us: float
    """From a pipeline's first byte to its last reply. Upper ends of buckets, 8 µs wide below 16 ms."""


async def run_load(load: Load, *, port: int, requests: int) -> Result:
    """Run it once against `127.0.0.1:port`; `BenchmarkFailed` with what it said where a request failed."""
    binary = find_binary("redis-benchmark")
    assert binary is not None, "a side runs only where nothing is missing"
    process = await asyncio.create_subprocess_exec(
        binary,
        *load.arguments(port=port, requests=requests),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complained = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        # It also warns, of no consequence, where a server has no CONFIG: the reason is the last line.
        lines = complained.decode(errors="replace").strip().splitlines() or ["no output"]
        raise BenchmarkFailed(
            f"redis-benchmark {' '.join(load.command)[:80]} ended with {process.returncode}: {lines[-1]}"
        )
    return parse_csv(said.decode())


def parse_csv(text: str) -> Result:
    """The one result in what `redis-benchmark --csv` prints; `BenchmarkFailed` where there is none or more than one."""
    rows = list(csv.DictReader(text.splitlines()))
    if len(rows) != 1 or _COLUMNS - rows[0].keys():
        raise BenchmarkFailed(
            f"one row with {', '.join(sorted(_COLUMNS))} is a result (redis-benchmark 6.2 and later): {text[:300]!r}"
        )
    row = rows[0]
    try:
        rate, p50_ms, p99_ms = (float(row[name]) for name in ("rps", "p50_latency_ms", "p99_latency_ms"))
    except (TypeError, ValueError) as error:
        raise BenchmarkFailed(f"not a number in {text[:300]!r}") from error
    return Result(per_second=rate, p50_us=p50_ms * 1000, p99_us=p99_ms * 1000)
