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


COLLECTING = """
import gc, os, signal, sys, threading
from log_tier.rpc.core import grpc_core

grpc_core()

def forked(enabled):
    (gc.enable if enabled else gc.disable)()
    if child := os.fork():
        assert gc.isenabled() is enabled
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return
    frozen = gc.get_freeze_count() > 0
    os._exit(0 if frozen and gc.isenabled() is enabled else 4)

forked(True)
forked(False)
gc.enable()
threads = [threading.Thread(target=lambda: [forked(True) for _ in range(20)]) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(0 if gc.isenabled() else 5)
"""


def test_a_fork_leaves_the_collector_as_it_was() -> None:
    """Also where several threads fork at once."""
    assert subprocess.run([sys.executable, "-W", "error", "-c", COLLECTING], check=False).returncode == 0
