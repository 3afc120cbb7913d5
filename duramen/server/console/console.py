"""The console of one server: what its HTTP endpoint answers on top of health, status and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from duramen.server.console.calls.console_calls import CALL_PATH, ConsoleCalls
from duramen.server.console.calls.local_call import FindMethod
from duramen.server.console.console_files import PAGE_HEADERS, ConsoleFile, read_console_files
from duramen.server.console.history import ServerHistory
from duramen.server.console.history_answer import history_to_json, look_back, parse_history_query
from duramen.server.console.history_keeper import HistoryKeeper
from duramen.server.console.node_watch import AskStatus
from duramen.server.console.status_events import StatusEvents
from duramen.server.sight.http_limits import HttpLimits
from duramen.server.sight.http_messages import HttpReply, HttpRequest, HttpRoute, problem
from duramen.server.sight.server_sight import ServerSight
from log_tier.access.gate import Gate
from log_tier.concurrency.sized_work import run_sized
from log_tier.concurrency.tasks import every_step
from log_tier.model.errors import Overloaded
from log_tier.trust.caller import Caller

__all__ = ["Console", "KeepHistory", "KeepsHistory"]

_AGAIN_S: Final = 5
"""When to ask again for a stream: a browser that is closed leaves its place within a second or two."""


class KeepsHistory(Protocol):
    """Keeps a history for longer than its server lives."""

    def start(self) -> None:
        """Begin, in the background."""
        ...

    async def close(self) -> None:
        """End it. Idempotent."""
        ...

    def describe(self) -> dict[str, Any]:
        """How it stands, as `/history` shows it."""
        ...


KeepHistory = Callable[[ServerHistory], KeepsHistory]


class Console:
    """Keeps a server's history and answers for it. `open()` makes one, `close()` ends it."""

    def __init__(
        self,
        sight: ServerSight,
        gate: Gate,
        limits: HttpLimits,
        files: Mapping[str, ConsoleFile],
        ask: AskStatus | None,
        find: FindMethod | None,
        kept: KeepHistory | None,
    ) -> None:
        self._sight = sight
        self._files = files
        self.keeper = HistoryKeeper(sight, ask)
        self._kept = None if kept is None else kept(self.keeper.history)
        self.events = StatusEvents(self.keeper, gate, streams_max=limits.streams_max)
        self._calls = None if find is None else ConsoleCalls(find, calls_max=limits.calls_max)

    @classmethod
    async def open(
        cls,
        sight: ServerSight,
        gate: Gate,
        limits: HttpLimits,
        ask: AskStatus | None = None,
        find: FindMethod | None = None,
        kept: KeepHistory | None = None,
    ) -> Console:
        """Begin to keep the history. `ask`: asks a node of the cluster for its status, at a router. `find`: the
        methods that pages may call; None: there are none. `kept`: keeps the history for longer than this server lives;
        None: nothing does.
        """
        made = cls(sight, gate, limits, await asyncio.to_thread(read_console_files), ask, find, kept)
        made.keeper.start()
        if made._kept is not None:
            made._kept.start()
        return made

    async def close(self) -> None:
        """KeepHistory it no longer; what is in memory is forgotten. Idempotent."""
        self.events.close()
        await every_step(*(() if self._kept is None else (self._kept.close,)), self.keeper.close)

    def routes(self) -> dict[str, HttpRoute]:
        """What answers each path."""
        pages = {path: HttpRoute(partial(_file, file), shows_status=False) for path, file in self._files.items()}
        calls = (
            {}
            if self._calls is None
            else {CALL_PATH: HttpRoute(self._calls.answer, shows_status=False, takes_calls=True)}
        )
        return {
            **pages,
            **calls,
            "/history": HttpRoute(self._history, shows_status=True),
            "/events": HttpRoute(self._events, shows_status=True),
        }

    async def _history(self, _: Caller, request: HttpRequest) -> HttpReply:
        query = parse_history_query(request.query)
        history = self.keeper.history
        view = look_back(history, query, self._sight.uptime_s(), self._sight.now_ms())
        shows: Callable[[str], bool] | None = self._sight.shows()
        kept = None if self._kept is None else self._kept.describe()
        items = len(view.points) * (1 + history.partitions // 10)
        return HttpReply(200, await run_sized(items, lambda: history_to_json(view, query, shows, kept)) + b"\n")

    async def _events(self, caller: Caller, _: HttpRequest) -> HttpReply:
        stream = self.events.stream(caller, self._sight.shows)
        try:
            first = await anext(stream)
        except Overloaded as error:
            return problem(503, error.message, (("retry-after", str(_AGAIN_S)),))
        return HttpReply(200, first, (("x-accel-buffering", "no"),), "text/event-stream", stream)


async def _file(file: ConsoleFile, _: Caller, __: HttpRequest) -> HttpReply:
    return HttpReply(200, file.body, PAGE_HEADERS, file.content_type)
