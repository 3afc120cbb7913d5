"""One thread, one clock, one seed: an event loop in virtual time, and workers that take turns on it.

Time hardly moves while anything can run, and jumps to the next timer when nothing can. What crosses from a thread to
the loop, or from the loop to a thread, arrives after a time that is drawn from the seed; so a seed is one interleaving,
and another seed is another one. What one thread hands over arrives in its order, as with real threads.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import random
import selectors
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

__all__ = ["SimulatedLoop", "SimulatedWorkers", "Stuck"]

T = TypeVar("T")
R = TypeVar("R")

# What a thread takes to wake: mostly microseconds, now and then a turn of the machine's scheduler.
_WAKE_S = 0.00002
_WAKE_LATE_S = 0.005
_LATE_CHANCE = 0.05

# What a turn of the loop takes: who looks again in each turn until a time has come must see it come.
_TURN_S = 0.00001


class Stuck(AssertionError):
    """Everybody waits, and no timer will wake anybody."""


class _Call(asyncio.Handle):
    """As asyncio's, which asks for the loop's debug mode at each: a simulation makes thousands in a virtual second."""

    __slots__ = ()

    def __init__(
        self, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: contextvars.Context | None
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = None, ()


class _Timer(asyncio.TimerHandle):
    """The same for a timer. One that was cancelled is passed over when its time comes."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Any,
        args: Any,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._when = when
        self._context = contextvars.copy_context() if context is None else context
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = None, ()


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time and whose threads are simulated.

    It looks at no file. A turn is the timers that are due and what was called, in the order in which they came.
    """

    _ready: deque[asyncio.Handle]
    _closed: bool

    def __init__(self, chance: random.Random) -> None:
        self._now_s = 0.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._timers_made = 0
        self._chance = chance
        self._last_s: dict[str, float] = {}
        self._slow_until_s = 0.0
        super().__init__(selectors.SelectSelector())
        self.untold: list[str] = []
        """Failures of which only the loop's exception handler has heard."""
        self.at_close: list[Callable[[], None]] = []
        """Removes what a run leaves in the file system, also where its blocks could not end."""

    def close(self) -> None:
        """As asyncio's. A timer that has not come holds the whole world that asked for it: none is kept."""
        super().close()
        self._timers.clear()
        removals, self.at_close = self.at_close, []
        for remove in removals:
            remove()

    def keep_untold(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The exception handler of this loop."""
        whose = context.get("task") or context.get("future")
        name = whose.get_name() if isinstance(whose, asyncio.Task) else ""
        self.untold.append(f"{context['message']}: {name} {context.get('exception')!r}")

    def time(self) -> float:
        return self._now_s

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = _Call(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """As asyncio's; timers of one time run in the order in which they were made."""
        timer = _Timer(when, callback, args, self, context)
        self._timers_made += 1
        heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def _run_once(self) -> None:
        ready, timers = self._ready, self._timers
        now_s = self._now_s + _TURN_S
        if not ready:
            while timers and timers[0][2]._cancelled:
                heappop(timers)
            if not timers:
                raise Stuck("everybody waits, and no timer will wake anybody")
            now_s = max(now_s, timers[0][0])
        self._now_s = now_s
        while timers and timers[0][0] <= now_s:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle: Any = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - as asyncio's handles do
                    self._failed(handle, error)

    def _failed(self, handle: asyncio.Handle, error: BaseException) -> None:
        message = f"Exception in callback {handle!r}"
        self.call_exception_handler({"message": message, "exception": error, "handle": handle})

    def digest(self) -> str:
        """Equal for equal runs so far: of the time, how many timers there were, and what was drawn."""
        whole = repr((self._now_s, self._timers_made, self._chance.getstate()))
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    def slow_threads(self, seconds: float) -> None:
        """For so long every crossing between threads takes as long as a busy machine makes it."""
        self._slow_until_s = max(self._slow_until_s, self.time() + seconds)

    def cross(self, thread: str, callback: Callable[..., Any], *args: Any) -> None:
        """Run `callback` on the thread `thread` after it has woken, behind whatever came before it there."""
        late = self._chance.random() < (0.5 if self.time() < self._slow_until_s else _LATE_CHANCE)
        delay_s = self._chance.random() * (_WAKE_LATE_S if late else _WAKE_S)
        at_s = max(self.time() + delay_s, self._last_s.get(thread, 0.0) + 1e-9)
        self._last_s[thread] = at_s
        self.call_at(at_s, callback, *args)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """A wake-up from another thread."""
        handle = asyncio.Handle(callback, args, self, context)
        self.cross("loop", self._run_crossed, handle)
        return handle

    @staticmethod
    def _run_crossed(handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            handle._run()

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> Any:  # type: ignore[override]
        """Work of a pool's thread: whole, at a time of its own."""
        future: asyncio.Future[T] = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 - carried to the caller, who raises it
                self.cross("loop", _settle, future, None, error)
            else:
                self.cross("loop", _settle, future, result, None)

        self.cross(f"pool {id(executor) if executor is not None else 0}", run)
        return future


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


class _SimulatedConsumer(Generic[T]):
    def __init__(self, loop: SimulatedLoop, work: Callable[[list[T]], bool], thread: str) -> None:
        self._loop, self._work, self._thread_name = loop, work, thread
        self._items: list[T] = []
        self._started = self._ended = self._woken = False

    def start(self) -> None:
        self._started = True
        self._wake()

    def put(self, item: T) -> None:
        self._items.append(item)
        self._wake()

    def take_rest(self) -> list[T]:
        rest, self._items = self._items, []
        return rest

    def wait_for(self, done: Future[R]) -> R:
        while not done.done():
            assert self._items, "what is waited for will not be done"
            assert not self._ended, "the thread that should do it has ended"
            self._turn()
        return done.result()

    def join(self) -> None:
        while self._started and not self._ended:
            assert self._items, "nothing tells the thread to end"
            self._turn()

    def _wake(self) -> None:
        if self._started and not self._ended and not self._woken and self._items:
            self._woken = True
            self._loop.cross(self._thread_name, self._run)

    def _run(self) -> None:
        self._woken = False
        if self._items and not self._ended:
            self._turn()
        self._wake()

    def _turn(self) -> None:
        try:
            self._ended = not self._work(self.take_rest())
        except BaseException:
            self._ended = True
            raise


class _SimulatedPool(Executor):
    def __init__(self, loop: SimulatedLoop, thread: str) -> None:
        self._loop, self._thread_name = loop, thread
        self._waiting: list[_Forced[Any]] = []

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        future: _Forced[R] = _Forced(lambda: fn(*args, **kwargs))
        self._waiting = [each for each in self._waiting if not each.done()] + [future]
        self._loop.cross(self._thread_name, future.run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for future in self._waiting if wait else ():
            future.run()


class _Forced(Future[R]):
    """A result whose work is done when its thread has its turn, or when somebody waits for it."""

    def __init__(self, work: Callable[[], R]) -> None:
        super().__init__()
        self._work = work

    def run(self) -> None:
        if self.done():
            return
        try:
            self.set_result(self._work())
        except Exception as error:  # noqa: BLE001 - carried to the caller, who raises it
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> R:
        self.run()
        return super().result(0)


class SimulatedWorkers:
    """`Workers` on a simulated loop."""

    def __init__(self, loop: SimulatedLoop, *, quick_s: float) -> None:
        """`quick_s`: 0.0: the event loop does no small work itself, which takes no time here."""
        self._loop = loop
        self.quick_s = quick_s

    def consumer(self, work: Callable[[list[T]], bool], *, name: str) -> _SimulatedConsumer[T]:
        return _SimulatedConsumer(self._loop, work, name)

    def pool(self, threads: int, *, name: str) -> Executor:
        return _SimulatedPool(self._loop, name)
