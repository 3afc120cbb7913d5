"""Many tables in a process that may have 1,024 files open: what one more costs, and what a restart takes.

Each table has one partition and one key. The child process sets its own hard limit, as a container would.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import duramen
from bench.workload import Bar, Measurement, RunSettings, Side, Workload

__all__ = ["MANY_TABLES"]

TABLES: Final = 5000
OPEN_FILES: Final = 1024

_QUICK_TABLES: Final = 1000
_TIMEOUT_S: Final = 1200

_RUN: Final = """
import json, resource, sys, time
tables, limit, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
import duramen

database, hundreds = duramen.open(path), []
for first in range(0, tables, 100):
    began = time.perf_counter()
    for number in range(first, first + 100):
        database.create_table(f"t{number}", partitions=1)
    hundreds.append(time.perf_counter() - began)
for number in range(tables):
    database.table(f"t{number}").put(b"k", b"%d" % number)
database.close()
began = time.perf_counter()
database = duramen.open(path)
restart_s = time.perf_counter() - began
for number in range(tables):
    assert database.table(f"t{number}").get(b"k") == b"%d" % number
database.close()
print(json.dumps({"seconds": restart_s, "last_to_first": min(hundreds[-5:]) / min(hundreds[:5])}))
"""


def _many(settings: RunSettings) -> Measurement:
    tables = _QUICK_TABLES if settings.quick else TABLES
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(tables), str(OPEN_FILES), str(settings.folder / "many")],
        check=True,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return Measurement(figures, duramen.__version__, f"{tables:,} tables of one key, {OPEN_FILES:,} open files")


MANY_TABLES: Final = Workload(
    "many_tables",
    f"{TABLES:,} tables with {OPEN_FILES:,} open files: restart, and the last hundred created against the first",
    (Side("duramen", "subject", _many),),
    (Bar("seconds", "at most", 3.0), Bar("last_to_first", "at most", 1.25)),
    runs_max=1,
)
