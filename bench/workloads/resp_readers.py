"""One and two reader processes, compared with the endpoint that does all by itself and with Redis. Stated, without a
bar.

Each of them is one more process that wants a processor: `redis-benchmark` takes one, and so does the server where
clients write. What readers are for shows only where there are more than those.
"""

from __future__ import annotations

from typing import Final

from bench.workload import Workload
from bench.workloads.resp_endpoint import CONNECTIONS, GET, KEYS, PIPELINED, SET, Measure, benchmark_side, by_benchmark

__all__ = ["RESP_READERS"]

_SIDES: Final = ("resp", "one-reader", "two-readers", "redis")


def _readers(name: str, title: str, measure: Measure) -> Workload:
    sides = tuple(benchmark_side(side, measure) for side in _SIDES)
    return Workload(name, f"{title}, without and with reader processes; redis-benchmark, {KEYS:,} keys", sides)


RESP_READERS: Final = (
    _readers("readers_get_50", f"GET, {CONNECTIONS} connections", by_benchmark(GET, connections=CONNECTIONS)),
    _readers(
        "readers_get_50_p16",
        f"GET, {CONNECTIONS} connections, {PIPELINED} pipelined",
        by_benchmark(GET, connections=CONNECTIONS, pipelined=PIPELINED),
    ),
    _readers("readers_set_50", f"SET, {CONNECTIONS} connections", by_benchmark(SET, connections=CONNECTIONS)),
)
