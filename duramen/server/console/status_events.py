"""`GET /events`: the console's document, and each second what has changed of it, for as long as the caller may see it.

A stream holds the number of the look that it sent last, and nothing else: one that is slow skips looks, and gets the
whole document where it has skipped some. Streams of one user share what is sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from duramen.server.console.history_keeper import HistoryKeeper
from duramen.server.console.look import Look
from duramen.server.console.night_document import NightDocument, change_to_json, night_document, whole_to_json
from log_tier.access.demands import ANY_USER
from log_tier.access.expiry_timer import ExpiryTimer
from log_tier.access.gate import Gate
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.sized_work import run_sized
from log_tier.model.errors import Overloaded, PermissionDenied, Unauthenticated
from log_tier.trust.caller import Caller

__all__ = ["StatusEvents"]

# A partition's row costs as much to make, compare and write as so many keys of a read.
_ROW_ITEMS: Final = 8

_ENDING_S: Final = 0.5
"""A stream that is over has so long to say why; a client that does not read loses its connection then."""

_VIEW_LOOKS_MAX: Final = 10
"""A view that no stream has asked for in so many looks is forgotten."""

Shows = Callable[[str], bool] | None
"""Which tables are shown to a caller; None: all."""


class _View:
    """What is shown to one user, or to everybody who is shown everything: the newest look, as it is sent."""

    def __init__(self) -> None:
        self.busy = asyncio.Lock()
        self.look = 0
        """The look that the following are of; 0: none yet."""
        self.document: NightDocument | None = None
        self.before = 0
        """The look from which `change` leads to this one."""
        self.change = b""
        self.whole = b""
        """Empty: nobody needed it yet."""


class _Permission:
    """May a caller still see the stream?"""

    def __init__(self) -> None:
        self.refusal = ""
        """Why not; empty: it may."""


class StatusEvents:
    """The streams of one endpoint. Belongs to its event loop; `close()` ends it."""

    def __init__(self, keeper: HistoryKeeper, gate: Gate, *, streams_max: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._keeper = keeper
        self._gate = gate
        self._clock = clock
        self._streams_max = streams_max
        self._views: dict[str, _View] = {}
        self._leave = gate.on_change(self._views.clear)
        self.streams = 0
        """How many are open."""

    def close(self) -> None:
        """Follow users and grants no longer. Idempotent."""
        self._leave()

    async def stream(self, caller: Caller, shows: Callable[[], Shows]) -> AsyncGenerator[bytes, None]:
        """The events for a caller whom the gate has let in, until it may not see them any more. `shows`: which tables
        it is shown now.

        Raises `Overloaded` before the first event where enough streams are open.
        """
        if self.streams >= self._streams_max:
            raise Overloaded(f"{self.streams} streams of /events are open here, and there may be no more: ask later")
        wake = asyncio.Event()
        with ExitStack() as opened:
            opened.enter_context(self._counted())
            permission = opened.enter_context(self._watched_permission(caller, wake))
            opened.enter_context(self._keeper.watched(wake.set))
            seen, view = 0, None
            while not permission.refusal:
                look, shown = self._keeper.newest, shows()
                key = "" if shown is None else f"user {caller.name}"
                if look is None or look.trends is None or (look.number == seen and view is self._views.get(key)):
                    wake.clear()
                    await wake.wait()
                    continue
                if view is not (now := self._views.setdefault(key, _View())):
                    view, seen = now, 0
                event = await self._event(view, look, seen, shown)
                seen = view.look
                if not permission.refusal:
                    yield event
            yield _event("end", 0, json.dumps({"error": permission.refusal}, ensure_ascii=False).encode())

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    @contextmanager
    def _watched_permission(self, caller: Caller, wake: asyncio.Event) -> Iterator[_Permission]:
        """Whether the caller may see the stream, while the block runs: when it may no longer, `wake` is set, and soon
        after that the present task is cancelled.
        """
        permission, gate = _Permission(), self._gate
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None, "a stream is sent by a task"
        with ExitStack() as opened:

            def decide() -> None:
                try:
                    gate.decide(caller, ANY_USER)
                except (Unauthenticated, PermissionDenied) as error:
                    if not permission.refusal:
                        permission.refusal = error.message
                        opened.callback(loop.call_later(_ENDING_S, task.cancel).cancel)
                        wake.set()

            opened.callback(gate.on_change(decide))
            opened.callback(gate.on_change(wake.set))  # what is shown may be another set of tables
            if expires_ms := gate.expires_ms(caller):
                opened.callback(ExpiryTimer(expires_ms, decide, clock=self._clock, loop=loop).cancel)
            yield permission

    async def _event(self, view: _View, look: Look, seen: int, shows: Shows) -> bytes:
        """What leads from the look that a stream has seen to a newer one; without one that leads there: all of it."""
        async with view.busy:
            if look.number > view.look:
                await run_sized(_ROW_ITEMS * len(look.observed.partitions), lambda: self._renew(view, look, shows))
                self._forget(look.number)
            if seen and seen == view.before:
                return _event("change", view.look, view.change)
            if not view.whole:
                document = view.document
                assert document is not None, f"look {look.number} was made into no document"
                view.whole = await run_sized(_ROW_ITEMS * len(document.rows), lambda: whole_to_json(document))
            return _event("whole", view.look, view.whole)

    def _renew(self, view: _View, look: Look, shows: Shows) -> None:
        document = night_document(look, self._keeper.history.state_since, shows)
        if view.document is not None:
            view.before, view.change = view.look, change_to_json(view.document, document)
        view.document, view.look, view.whole = document, look.number, b""

    def _forget(self, look: int) -> None:
        old = [key for key, view in self._views.items() if 0 < view.look < look - _VIEW_LOOKS_MAX]
        for key in old:
            del self._views[key]


def _event(name: str, number: int, data: bytes) -> bytes:
    """One event as the HTML standard has it. `data`: without line breaks."""
    return b"event: %s\nid: %d\ndata: %s\n\n" % (name.encode(), number, data)
