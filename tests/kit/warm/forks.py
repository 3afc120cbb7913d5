"""`python forks.py DESCRIPTOR`: imports what Duramen's commands need, and forks a process for each request.

    a test ──▶ {"arguments": […], "environment": {…}, "folder": …, "limits": […], "umask": …}   its three standard files
           ◀── 4711                                                                            the id of the process

The process is the child of whoever asks, as far as the kernel knows: it is forked twice, and its first parent ends
while the asking process takes such orphans (`PR_SET_CHILD_SUBREAPER`, in `warm_process.py`).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import runpy
import socket
import sys
import types
from collections.abc import Sequence
from typing import Any, Final

from setproctitle import setproctitle

__all__ = ["REQUEST_BYTES"]

REQUEST_BYTES: Final = 1 << 17

_STREAMS: Final = 3

_IMPORTED: Final = (
    "duramen.aio",
    "duramen.blocking",
    "duramen.cli.servers.announcer",
    "duramen.cli.servers.fork_server",
    "duramen.server.roles.all_in_one",
    "duramen.server.supervisor.cluster",
)
"""What servers and clients need, with all commands and what the servers of a cluster share."""


def main() -> None:
    """Fork until nobody asks any more. A forked process runs its program here, and exits as Python does."""
    asks = socket.socket(fileno=int(sys.argv[1]))
    del sys.path[0]  # the folder of this file
    setproctitle("python: warm")  # or that of a fork would not be seen: the first one looks where a title has its place
    gc.disable()
    for name in _IMPORTED:
        importlib.import_module(name)
    for name in importlib.import_module("duramen.cli.servers.fork_server").PRELOADED:
        importlib.import_module(name)
    importlib.import_module("duramen.cli.app").whole_app()
    gc.collect()
    gc.freeze()  # a look by the collector would write into every page that is shared
    while True:
        said, files, _, _ = socket.recv_fds(asks, REQUEST_BYTES, _STREAMS)
        if not said:
            return
        request = json.loads(said)
        if _forked(asks, files):
            _begin(request, files)
            _run(request["arguments"])
            return


def _forked(asks: socket.socket, files: Sequence[int]) -> bool:
    """Fork, and answer with the new process; whether this is that one."""
    reading, writing = os.pipe()
    begins, held = os.pipe()
    between = os.fork()
    if between == 0:
        forked = os.fork()
        if forked:
            os.write(writing, b"%d" % forked)
            os._exit(0)
        asks.close()
        os.close(held)
        os.read(begins, 1)  # ends when it is a child of who asks, which takes no orphans any more
        for each in (reading, writing, begins):
            os.close(each)
        return True
    forked = int(os.read(reading, 20))
    os.waitpid(between, 0)  # from here on it is the child of who asks
    asks.send(b"%d" % forked)
    asks.recv(1)
    for each in (reading, writing, begins, held, *files):
        os.close(each)
    return False


def _begin(request: dict[str, Any], files: Sequence[int]) -> None:
    """Make this forked process what a program that was just started is."""
    gc.enable()
    for stream, each in enumerate(files):
        os.dup2(each, stream)
        os.close(each)
    os.chdir(request["folder"])
    os.umask(request["umask"])
    for number, limits in request["limits"]:
        resource.setrlimit(number, tuple(limits))
    os.environ.clear()
    os.environ.update(request["environment"])
    setproctitle(" ".join(["python", *request["arguments"]]))


def _run(arguments: Sequence[str]) -> None:
    """Run `-m MODULE …` or `-c CODE …`, as Python does."""
    how, what, *rest = arguments
    if how == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv[:] = [what, *rest]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    sys.path.insert(0, "")
    sys.argv[:] = [how, *rest]
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(what, "<string>", "exec"), program.__dict__)


if __name__ == "__main__":
    main()
