"""A thread that waits for a call on an event loop: what it gets, and what an interrupt at any instruction does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s

from log_tier.concurrency.background_loop import BackgroundLoop
from log_tier.concurrency.handed_call import HandedCall

UNNOTICED = """
import _thread, asyncio, threading
from log_tier.concurrency.background_loop import background_loop

threading.Timer(0.05, _thread.interrupt_main).start()
try:
    background_loop().submit(lambda: asyncio.sleep(600)).result()
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    started = BackgroundLoop("handed")
    yield started
    started.end()


def handed(loop: BackgroundLoop, call: Callable[[], Any]) -> HandedCall[Any]:
    begun = loop.submit(call)
    assert begun is not None
    return begun


def test_a_signal_that_does_not_wake_the_wait_ends_it() -> None:
    """A signal that comes in the last instant before a thread sleeps is noted, and wakes nobody; like this one."""
    done = subprocess.run(
        [sys.executable, "-c", UNNOTICED], capture_output=True, text=True, check=True, timeout=patience_s(60)
    )
    assert done.stdout == "interrupted\n"


def test_it_waits_longer_than_one_look(loop: BackgroundLoop) -> None:
    # A look comes every quarter of a second.
    assert handed(loop, lambda: asyncio.sleep(0.4, "done")).result() == "done"


@pytest.mark.parametrize("error", [TimeoutError("the call's own"), ValueError("no")])
def test_it_raises_what_the_call_raised(loop: BackgroundLoop, error: Exception) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        handed(loop, fail).result()


def test_a_cancelled_call(loop: BackgroundLoop) -> None:
    call = handed(loop, asyncio.Event().wait)
    call.cancel()
    with pytest.raises(CancelledError):
        call.result()


def test_a_call_that_has_ended_is_cancelled_without_effect_when_its_loop_is_gone() -> None:
    """Another thread closes what the call was of; its caller, who cancels whatever fails, gets the call's own error."""
    gone = BackgroundLoop("gone")
    call = handed(gone, fails_soon)
    with pytest.raises(ValueError, match="an error"):
        call.result()
    gone.end()
    call.cancel()


def test_a_call_that_was_interrupted_is_cancelled_without_effect_when_its_loop_is_gone() -> None:
    gone = BackgroundLoop("gone")
    call = HandedCall(gone.loop, asyncio.Event().wait)
    gone.end()
    call.cancel()
    assert gone.submit(fails_soon) is None, "nothing more begins there"


def test_a_result_may_be_asked_for_twice(loop: BackgroundLoop) -> None:
    call = handed(loop, lambda: asyncio.sleep(0, 7))
    assert (call.result(), call.result()) == (7, 7)


def test_an_interrupt_at_any_instruction() -> None:
    """It is the interrupt that comes out, the loop goes on, and an error that nobody asks for is reported nowhere.

    In a process of its own: where an interrupt of a trace function hits CPython 3.11 between two instructions that
    belong together, the thread keeps the exception that it had handled, as the context of all that come later.
    """
    program = Path(__file__).with_name("interrupted_calls.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=patience_s(60))
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 40, "instructions"


async def fails_soon() -> None:
    await asyncio.sleep(0.005)
    raise ValueError("an error")
