"""Messages of streams are measured by the time in which they were made, not by that in which they were read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from log_tier.rpc.messages.slow_call_sink import CallEnd
from log_tier.rpc.messages.timed_streams import TimedStream


class Noting:
    """A sink by whose clock something takes time. `later`: it wants to know of later messages."""

    def __init__(self, *, later: bool) -> None:
        self.at_s = 0.0
        self.least_s = 1.0
        self.later = later
        self.slow: list[tuple[float, float, CallEnd]] = []

    def now_s(self) -> float:
        return self.at_s

    def measures(self, method: str) -> bool:
        return True

    def measures_later(self, method: str) -> bool:
        return self.later

    def called(self, method: str, request: Any, peer: str, began_s: float, outcome: CallEnd) -> None:
        assert (method, request, peer) == ("/a/B", "request", "ipv4:1.2.3.4:5")
        self.slow.append((began_s, self.at_s, outcome))


class Reading:
    """A context whose caller takes its time to read."""

    def __init__(self, sink: Noting, reads_s: float) -> None:
        self._sink, self._reads_s = sink, reads_s
        self.messages: list[int] = []

    def peer(self) -> str:
        return "ipv4:1.2.3.4:5"

    async def write(self, message: int) -> None:
        self.messages.append(message)
        self._sink.at_s += self._reads_s


@pytest.mark.parametrize("later", [True, False])
async def test_only_what_the_server_took_counts(later: bool) -> None:
    sink = Noting(later=later)
    context = Reading(sink, 50.0)
    with TimedStream(context, "/a/B", "request", sink) as timed:
        for number, took_s in enumerate((2.0, 0.5, 3.0)):
            sink.at_s += took_s
            await timed.write(number)
        sink.at_s += 9.0
    assert context.messages == [0, 1, 2]
    assert sink.slow == ([(0.0, 2.0, "done"), (102.5, 105.5, "done")] if later else [(0.0, 2.0, "done")])


@pytest.mark.parametrize(("error", "end"), [(ValueError, "failed"), (asyncio.CancelledError, "unanswered")])
async def test_a_stream_that_ends_before_its_message(error: type[BaseException], end: CallEnd) -> None:
    sink = Noting(later=False)

    def ends() -> None:
        with TimedStream(Reading(sink, 0.0), "/a/B", "request", sink) as timed:
            sink.at_s += 4.0
            assert timed.peer() == "ipv4:1.2.3.4:5"
            raise error

    with pytest.raises(error):
        ends()
    assert sink.slow == [(0.0, 4.0, end)]


async def test_a_watch_that_ends_after_its_first_message_was_not_slow() -> None:
    sink = Noting(later=False)

    async def ends() -> None:
        with TimedStream(Reading(sink, 0.0), "/a/B", "request", sink) as timed:
            await timed.write(1)
            sink.at_s += 1000.0
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await ends()
    assert sink.slow == []
