"""`python -m duramen.cli.servers.fork_server DESCRIPTOR`: the process that forks the servers of a cluster.

What a server imports takes most of the second in which it starts, and most of its memory. Here it is imported once, and
each server is forked from there: it begins in a tenth of the time, and shares those pages with the others.

Invariants:

- This process has one thread, no event loop and nothing open but its socket: a fork of it is a fresh start.
- A server is in every other way what a start by `duramen serve` gives: a session of its own, its own standard output
  and error, signals as Python sets them, the environment that it was given, a name of its own in `ps`.
- No server outlives this process, and it does not outlive the supervisor: the kernel sends SIGTERM (`end_with_parent`).
- A server's exit code is known here alone. Its pidfd goes to the supervisor before anybody could wait for it, so a
  signal never reaches a process that has got the same number since.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from setproctitle import setproctitle

from duramen.cli import main as run_command
from duramen.server.supervisor.fork_wire import receive_message, send_message
from duramen.server.supervisor.parent import PARENT_VARIABLE, end_with_parent

__all__ = ["PRELOADED"]

PRELOADED: Final = (
    "duramen.cli.app",
    "duramen.cli.servers.serve",
    "duramen.server.console.console",
    "duramen.server.kept.history_table",
    "duramen.server.registry.schema_registry",
    "duramen.server.roles.http_port",
    "duramen.server.roles.log_role",
    "duramen.server.roles.node_role",
    "duramen.server.roles.router_role",
    "duramen.server.roles.run",
    "duramen.server.settings.loading",
    "duramen.server.settings.models",
    "duramen.server.settings.resp",
    "duramen.server.sight.http_endpoint",
    "duramen.server.wiring.server_certificates",
    "duramen.tracing.asked_for",
    "log_tier.remote.remote_log",
    "uvloop",
)
"""What the roles need before they answer."""


def main() -> None:
    """Fork what is asked for until the supervisor is gone. A forked process runs its command here, and exits."""
    end_with_parent()
    setproctitle("duramen: fork server")
    asks = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    for name in PRELOADED:
        import_module(name)
    gc.collect()
    gc.freeze()  # a look by the collector would write into every page that is shared
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([asks.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, select.PIPE_BUF)
            _report_ends(asks)
        if asks.fileno() not in ready:
            continue
        request, descriptors = receive_message(asks)
        if request is None:
            return  # the supervisor is gone, and takes everything with it
        if _forked(asks, request, descriptors):
            for end in (woken, wakes):
                os.close(end)
            run_command()  # exits


def _forked(asks: socket.socket, request: dict[str, Any], descriptors: Sequence[int]) -> bool:
    """Fork one process and report it; whether this is the forked one."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        asks.close()
        _begin(request, descriptors, parent)
        return True
    for each in descriptors:
        os.close(each)
    handle = os.pidfd_open(pid)
    send_message(asks, {"request": request["request"], "pid": pid}, [handle])
    os.close(handle)
    return False


def _begin(request: dict[str, Any], descriptors: Sequence[int], parent: int) -> None:
    """Make this forked process what a program that was just started is."""
    gc.enable()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Ctrl-C in a terminal goes to the supervisor, which then stops its children in their order.
    os.setsid()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for stream, each in enumerate(descriptors, 1):
        os.dup2(each, stream)
        os.close(each)
    os.environ.update(request["environment"])
    os.environ[PARENT_VARIABLE] = str(parent)
    sys.argv[:] = ["duramen", *request["arguments"]]
    setproctitle(" ".join(sys.argv))


def _report_ends(asks: socket.socket) -> None:
    """Say which processes have ended, and how."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        send_message(asks, {"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _run() -> NoReturn:
    main()
    sys.exit(0)


if __name__ == "__main__":
    _run()
