"""The count of calls and file hops, as a reader starts it: in a process of its own, whose threads it profiles."""

from __future__ import annotations

import re
import subprocess
import sys

from kit.deadlines import patience_s

# A get in a client and a server is some 90 calls over 30 files. Far from that, the hook sees too little or too much.
CALLS_MAX, FILES_MIN = 200, 15

# How many file hops a reader of the code has to follow at most, for each walk. A clearing's varies by two,
# with which of its tasks runs first.
HOPS_MAX = {"put": 70, "get": 70, "incr": 80, "flushdb": 400}
TRIES = 5


def hops_of(*arguments: str) -> str:
    """What `python -m bench.hops` prints."""
    command = [sys.executable, "-m", "bench.hops", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=patience_s(120), check=True).stdout


def test_a_get_is_counted() -> None:
    printed = hops_of("get", "--show")
    found = re.match(r"get +calls +(\d+) +files +(\d+) +file hops +(\d+) ", printed)
    assert found is not None, printed
    calls, files, hops = map(int, found.groups())
    assert CALLS_MAX > calls > hops > files >= FILES_MIN
    walked = [line.split()[0] for line in printed.splitlines()[1:] if len(line.split()) == 2]
    ways = ["duramen/blocking/table.py", "router/remote/grpc_connection.py", "router/endpoints/grpc/services.py"]
    assert [file for file in dict.fromkeys(walked) if file in ways] == ways


def test_each_walk_stays_below_its_bar() -> None:
    """A step here and a check there cost nothing that one notices: they made a put of 63 hops one of 85 in two days.

    On a busy machine a call waits where it finds its answer otherwise, which takes a hop or two: the fewest count.
    """
    over = dict(HOPS_MAX)
    for _ in range(TRIES):
        printed = hops_of(*over)
        hops = {name: int(count) for name, count in re.findall(r"^(\w+) .*? file hops +(\d+) ", printed, re.MULTILINE)}
        assert hops.keys() == over.keys(), printed
        over = {name: count for name, count in hops.items() if count > HOPS_MAX[name]}
        if not over:
            return
    raise AssertionError(f"hops of {over}, where {HOPS_MAX} may be: `python -m bench.hops --show` prints the walks")
