"""run(): one asynchronous function, in virtual time, under one seed."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from duramen.client.transport.observer import CLIENT_OBSERVER
from duramen.testing.machine.simulated_grpc import SimulatedTransport
from duramen.testing.running.errors import NotSimulated
from duramen.testing.running.refusals import refusals
from duramen.testing.running.seeded import seeded
from duramen.testing.running.virtual_loop import VirtualLoop, virtual_loop
from log_tier.rpc.transport import TRANSPORT

__all__ = ["CLIENT", "LIMIT_S", "run"]

T = TypeVar("T")

CLIENT: Final = "client"
"""The test itself, on the network."""

LIMIT_S: Final = 3600.0
"""An hour of virtual time is seconds of real time while somebody retries for ever, and more than a test means."""


def run(main: Callable[..., Coroutine[Any, Any, T]], *args: object, seed: int = 0, limit_s: float = LIMIT_S) -> T:
    """Run `await main(*args)` in virtual time, and return its result.

    `asyncio.sleep`, timeouts and the loop's `time()` are virtual, and begin at 0. `random`, `secrets`, `uuid.uuid4` and
    everything that Duramen draws follow from `seed`: the same seed is the same run. `limit_s`: virtual seconds.

    `time.time`, `time.monotonic` and `datetime.now` are the machine's. `asyncio.to_thread` runs its function whole, on
    the loop, at a time that the seed draws. Sockets, subprocesses, threads and `time.sleep` raise `NotSimulated`.

    Raises what `main` raises, with a note that names the seed; `Stuck` where everybody waits and no timer is left;
    `TooLong` after `limit_s`.
    """
    if not callable(main):
        raise TypeError(f"run takes the function and not what it returns: run({getattr(main, '__name__', 'main')})")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise NotSimulated(
            "run() begins a loop of its own and was called in one: call it from a function without async"
        )
    try:
        with (
            _alone(),
            _kept_random(),
            seeded(seed),
            refusals(seed),
            _no_collector(),
            asyncio.Runner(loop_factory=lambda: VirtualLoop(seed, limit_s)) as runner,
        ):
            return runner.run(_begun(main, args))
    except Exception as error:
        error.add_note(f"in virtual time, seed {seed}")
        raise


async def _begun(main: Callable[..., Coroutine[Any, Any, T]], args: tuple[object, ...]) -> T:
    loop = virtual_loop()
    loop.test = asyncio.current_task()
    TRANSPORT.set(SimulatedTransport(loop.network, CLIENT))
    CLIENT_OBSERVER.set(loop.observer)
    return await main(*args)


_RUNNING: Final = threading.Lock()


@contextmanager
def _alone() -> Iterator[None]:
    """One run at a time: what a run replaces is the process' own. Raises `NotSimulated` for a second one."""
    if not _RUNNING.acquire(blocking=False):
        raise NotSimulated(
            "another thread of this process is in virtual time, and random, secrets and the like can follow one seed "
            "alone: run one after the other, or in processes of their own (pytest-xdist)"
        )
    try:
        yield
    finally:
        _RUNNING.release()


@contextmanager
def _kept_random() -> Iterator[None]:
    """The state of `random` is again what it was, after the run."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Python's collector of cycles ends generators where it happens to run, which is another place in each process."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
