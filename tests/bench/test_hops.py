"""The count of calls and file hops, as a reader starts it: in a process of its own, whose threads it profiles."""

from __future__ import annotations

import re
import subprocess
import sys

from kit.deadlines import patience_s

# A get in a client and a server is some 90 calls over 30 files. Far from that, the hook sees too little or too much.
CALLS_MAX, FILES_MIN = 200, 15


def test_a_get_is_counted() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "bench.hops", "get", "--show"],
        capture_output=True,
        text=True,
        timeout=patience_s(120),
        check=True,
    )
    found = re.match(r"get +calls +(\d+) +files +(\d+) +file hops +(\d+) ", run.stdout)
    assert found is not None, run.stdout
    calls, files, hops = map(int, found.groups())
    assert CALLS_MAX > calls > hops > files >= FILES_MIN
    walked = [line.split()[0] for line in run.stdout.splitlines()[1:] if len(line.split()) == 2]
    ways = ["duramen/blocking.py", "router/remote/grpc_connection.py", "router/endpoints/grpc/services.py"]
    assert [file for file in dict.fromkeys(walked) if file in ways] == ways
