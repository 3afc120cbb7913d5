"""A thread that waits for a future: what it gets, and that a signal ends the wait."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future

import pytest
from kit.deadlines import patience_s

from log_tier.concurrency.blocking_wait import result_of

UNNOTICED = """
import _thread, threading
from concurrent.futures import Future
from log_tier.concurrency.blocking_wait import result_of

threading.Timer(0.05, _thread.interrupt_main).start()
try:
    result_of(Future())
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_signal_that_does_not_wake_the_wait_ends_it() -> None:
    """A signal that comes in the last instant before a thread sleeps is noted, and wakes nobody; like this one."""
    done = subprocess.run(
        [sys.executable, "-c", UNNOTICED], capture_output=True, text=True, check=True, timeout=patience_s(60)
    )
    assert done.stdout == "interrupted\n"


def test_it_waits_longer_than_one_look() -> None:
    future: Future[str] = Future()
    timer = threading.Timer(0.4, future.set_result, ["done"])  # a look comes every quarter of a second
    timer.start()
    assert result_of(future) == "done"
    timer.join()


@pytest.mark.parametrize("error", [TimeoutError("the call's own"), ValueError("no")])
def test_it_raises_what_the_call_raised(error: Exception) -> None:
    future: Future[None] = Future()
    future.set_exception(error)
    with pytest.raises(type(error), match=str(error)):
        result_of(future)


def test_a_cancelled_call() -> None:
    future: Future[None] = Future()
    future.cancel()
    with pytest.raises(CancelledError):
        result_of(future)
