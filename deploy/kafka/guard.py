"""Kills the processes whose ids come on the standard input, one per line, when the input ends.

The input ends when the process at its other end does, by `kill -9` too. `PR_SET_PDEATHSIG` would not do: it fires when
the *thread* that started the child ends, and tests start brokers from short-lived threads.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

__all__ = ["guard"]


def guard() -> None:
    # A descriptor of a process, not its number, is what stays true until the end: numbers are used again.
    processes = []
    for line in sys.stdin:
        with contextlib.suppress(ProcessLookupError):
            processes.append(os.pidfd_open(int(line)))
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)


if __name__ == "__main__":
    guard()
