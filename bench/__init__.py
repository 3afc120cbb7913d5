"""The benchmark: how fast Duramen is, next to what else could do the job and next to what the machine can do at all.

It promises **ratios**, not figures. A figure from a shared two-core machine swings by a factor of two between minutes;
a ratio of two runs that stood next to each other swings far less, and the report prints how far. So:

- Every workload has *sides*: Duramen (the subject), peers (other stores) and floors (the bare system call, the bare
  LMDB transaction, the bare RPC). All sides of a workload run in turn, A B C A B C …, one *round* after the other;
  a ratio is made inside a round; the report gives the median of the rounds' ratios with the lowest and the highest.
- All sides get the same bytes (16-byte keys, 100-byte values that do not compress), from the same seed, made before
  the clock starts; the same number of callers; the same asyncio program on uvloop (`callers.py`).
- Every run is its own client process and its own server process on an empty folder (`run.py`), so that no side
  inherits another one's garbage, connections or page-cache debts; dirty pages are flushed before a run starts.
- What a `get` returns is compared with what was put. A wrong answer ends the run; it is not a slow answer.
- Every peer gets its best honest shot. Where a client library leaves a choice (connections, channels, read mode) it was
  made by measurement; the driver's file says what was tried.
- The bars are in the code, next to their workload (`workloads/`), and the report says held, or missed by how much. What
  cannot run here (no binary, no library) is named and skipped.

How a run passes through: `__main__` reads the command line and picks workloads → `rounds.py` starts one process per
run (`python -m bench.run WORKLOAD SIDE`) and collects what each measured → `verdicts.py` holds the numbers against the
bars, using `statistics.py` → `report.py` writes Markdown for people and JSON for programs into `bench/results/`.

What it deliberately does not do: it is no test (nothing here fails a build because a machine was busy), it measures no
cluster, no disk that is not this machine's, and no peer in a configuration that would lose acknowledged writes, except
where the peer offers no other, and then the report says so next to the number.

Reading order: `workload.py` (the words), `workloads/served.py` (most of the table), `drivers/driver.py` and one driver
(`drivers/etcd.py`), `callers.py`, `rounds.py`, `verdicts.py`, `report.py`. Two are separate:
`hops.py` counts the calls of one request and measures no time; `processor.py`, with `grpc_calls.py`, compares the
server's processor time for a command with another checkout's.
"""

from __future__ import annotations

__all__: list[str] = []
