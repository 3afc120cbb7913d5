"""What a server with 1 M keys keeps in memory of its own.

Anonymous memory is what nobody can take back without swapping: heaps, stacks, caches held by the process. Pages of
files (an LMDB index, a program's code) belong to the page cache and are dropped when others need them; resident memory,
which counts them too, is reported as well. Both from `/proc/PID/smaps_rollup`, summed over the server and its children.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.data import make_pairs
from bench.drivers.driver import Driver
from bench.workload import Bar, RunSettings, Workload
from bench.workloads.contenders import preload, server_side

__all__ = ["MEMORY", "process_tree"]

KEYS: Final = 1_000_000
_QUICK_DIVISOR: Final = 10


async def _measure(driver: Driver, settings: RunSettings) -> dict[str, float]:
    pairs = make_pairs(KEYS // _QUICK_DIVISOR if settings.quick else KEYS)
    await preload(driver, pairs)
    # Read them once too: a server that caches what it serves has done so by now.
    for start in range(0, len(pairs), 100):
        wanted = pairs[start : start + 100]
        if await driver.get_many([key for key, _ in wanted]) != [value for _, value in wanted]:
            raise AssertionError(f"get_many from {wanted[0][0]!r} found other values than were put")
    rollups = [_rollup(pid) for pid in process_tree(driver.server_pid)]
    return {
        "anonymous_mebibytes": sum(rollup["Anonymous"] for rollup in rollups) / 1024,
        "resident_mebibytes": sum(rollup["Rss"] for rollup in rollups) / 1024,
    }


def process_tree(pid: int) -> list[int]:
    """`pid` and all processes below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += process_tree(int(child))
    return found


def _rollup(pid: int) -> dict[str, int]:
    """The kB lines of a process' `smaps_rollup`."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name.rstrip(":"): int(kilobytes) for name, kilobytes, *_ in map(str.split, lines)}


MEMORY: Final = Workload(
    "memory",
    f"server memory with {KEYS:,} keys, after writing and reading each once",
    tuple(server_side(name, _measure) for name in ("duramen", "etcd", "redis", "nats", "grpc-echo")),
    (Bar("anonymous_mebibytes", "at most", 250),),
    runs_max=1,
)
