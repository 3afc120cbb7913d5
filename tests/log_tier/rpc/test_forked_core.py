"""gRPC's core in a forked child, which loads a copy of the extension: a try that fails keeps no descriptor."""

from __future__ import annotations

import subprocess
import sys

CHILD = """
import errno, os, shutil, sys
from log_tier.rpc.core import grpc_core

first = grpc_core()
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

def refuse(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

def descriptors():
    return len(os.listdir("/proc/self/fd"))

copy, shutil.copyfileobj = shutil.copyfileobj, refuse
before = descriptors()
for _ in range(3):
    try:
        grpc_core()
    except OSError:
        pass
    else:
        os._exit(2)
left = descriptors() - before
shutil.copyfileobj = copy
os._exit(10 + left if left else 0 if grpc_core() is not first else 3)
"""


def test_a_copy_that_fails_keeps_no_descriptor() -> None:
    assert subprocess.run([sys.executable, "-c", CHILD], check=False).returncode == 0
