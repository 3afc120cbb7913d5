"""A network between simulated processes: links that are late, cut, one-way, and reset; what a kill leaves of them.

A connection has two directions, each in order as TCP's are. What is sent over a cut link waits, and arrives when the
link is whole again; where that takes longer than gRPC's pings allow, both ends give the connection up. Two connections
of the same processes overtake each other.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from duramen.testing.machine.story import RunStory
from log_tier.rpc.channel import CUT_NOTICED_S

__all__ = ["CallAnswer", "Connecting", "Direction", "Link", "NetConnection", "Network"]

_LATENCY_S: Final = 0.0002
_COPIED: Final = 0.3
"""Of the requests over a link that copies, so many."""
_CONNECT_S: Final = 5.0
"""What a connection to somebody who does not answer takes to fail."""


@dataclass
class Link:
    """From one process to another one."""

    cut: bool = False
    late_s: float = 0.0
    """At most so much is added to each message's way."""
    reset_next: bool = False
    """The next message over it is lost with its connection."""
    copies_s: float = 0.0
    """Some requests over it arrive once more, at most so much later; 0: none."""
    directions: dict[Direction, None] = field(default_factory=dict)
    """In the order in which they were made: a set has another order in each process. So have all dicts here."""


_HELD: Final = math.inf


@dataclass(slots=True)
class _Message:
    deliver: Callable[..., None]
    args: tuple[Any, ...]
    at_s: float = _HELD
    """When it arrives; never, while the link into which it was sent is cut."""


class Direction:
    """One half of a connection: bytes in order, or held while the link is cut."""

    def __init__(self, network: Network, link: Link, connection: NetConnection) -> None:
        self._network, self._link, self._connection = network, link, connection
        self._under_way: deque[_Message] = deque()
        """In the order in which they were sent, and arrive."""
        link.directions[self] = None

    def send(self, deliver: Callable[..., None], *args: Any) -> None:
        """Call `deliver(*args)` when the message arrives, if it does."""
        if self._connection.broken:
            return
        if self._link.reset_next:
            self._link.reset_next = False
            self._network.story.met["reset in the middle"] += 1
            self._network.loop.call_soon(self._connection.reset, "Connection reset by peer")
            return
        message = _Message(deliver, args)
        if self._link.cut:
            self._network.story.met["message over a cut link"] += 1
        else:
            self._time(message, self._under_way[-1].at_s if self._under_way else 0.0)
        self._under_way.append(message)

    def _time(self, message: _Message, after_s: float) -> None:
        loop = self._network.loop
        delay_s = _LATENCY_S + self._network.chance.random() * (_LATENCY_S + self._link.late_s)
        message.at_s = max(loop.time() + delay_s, after_s + 1e-9)
        loop.call_at(message.at_s, self._arrive)

    def _arrive(self) -> None:
        now_s = self._network.loop.time()
        while self._under_way and self._under_way[0].at_s <= now_s and not self._link.cut:
            message = self._under_way.popleft()
            message.deliver(*message.args)

    def heal(self) -> None:
        """The link is whole again: what should have arrived meanwhile is sent again, ahead of what is under way."""
        now_s, after_s = self._network.loop.time(), 0.0
        for message in self._under_way:
            if message.at_s <= max(now_s, after_s) or message.at_s == _HELD:
                self._time(message, after_s)
            after_s = message.at_s

    def close(self) -> None:
        self._under_way.clear()
        self._link.directions.pop(self, None)


class NetConnection:
    """Between a process that called and one that listened."""

    def __init__(self, network: Network, client: str, server: str) -> None:
        self.network, self.client, self.server = network, client, server
        network.connections_made += 1
        self.number = network.connections_made
        """Of no other connection: what a port is to a peer of TCP."""
        self.broken = ""
        """Why it is gone; empty while it is there."""
        self.to_server = Direction(network, network.link(client, server), self)
        self.to_client = Direction(network, network.link(server, client), self)
        self.on_break: dict[Callable[[str], None], None] = {}
        network.connections[self] = None

    def reset(self, why: str) -> None:
        """It is gone for both ends, at once."""
        if self.broken:
            return
        self.broken = why
        self.to_server.close()
        self.to_client.close()
        self.network.connections.pop(self, None)
        callbacks, self.on_break = self.on_break, {}
        for each in callbacks:
            each(why)


class Connecting(ConnectionError):
    """No connection could be made."""


class CallAnswer(NamedTuple):
    """How a server has ended a call; whether anybody hears it is another matter."""

    server: str
    method: str
    is_stream: bool
    metadata: tuple[tuple[str, str], ...]
    code: Any
    """Of gRPC."""
    sent: int = 0
    """Messages of a stream."""


class Network:
    """All links, listeners and connections. A process is known by its name, its address is NAME:7070."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random, story: RunStory) -> None:
        self.loop, self.chance, self.story = loop, chance, story
        self._links: defaultdict[tuple[str, str], Link] = defaultdict(Link)
        self.listeners: dict[str, Any] = {}
        """By process: the server that listens there."""
        self.connections: dict[NetConnection, None] = {}
        self.dead: set[str] = set()
        """Processes that were killed and hold on to something yet: nothing of them gets out."""
        self.calls = self.connections_made = 0
        """So many were made; each has a number."""
        self.on_answer: Callable[[CallAnswer], None] = lambda answer: None
        """Called with what a server answers to each call."""

    @property
    def links(self) -> Mapping[tuple[str, str], Link]:
        """Every link that anybody has used, by source and target."""
        return self._links

    def link(self, source: str, target: str) -> Link:
        """From `source` to `target`."""
        return self._links[source, target]

    async def connect(self, source: str, target: str) -> NetConnection:
        """A connection. Raises `Connecting` at once where nobody listens, later where nobody can be reached."""
        if source in self.dead:
            raise Connecting("the process is dead")
        there, back = self.link(source, target), self.link(target, source)
        await asyncio.sleep(2 * _LATENCY_S + self.chance.random() * (there.late_s + back.late_s))
        deadline_s = self.loop.time() + _CONNECT_S
        while there.cut or back.cut:
            if self.loop.time() >= deadline_s:
                raise Connecting("connection timed out")
            await asyncio.sleep(0.1)
        if target not in self.listeners or source in self.dead:
            raise Connecting("connection refused")
        return NetConnection(self, source, target)

    def cut(self, source: str, target: str) -> None:
        """Nothing that `source` sends reaches `target`. Who notices gives its connections up."""
        link = self.link(source, target)
        if not link.cut:
            link.cut = True
            self.loop.call_later(CUT_NOTICED_S, self._noticed, source, target, link)

    def _noticed(self, source: str, target: str, link: Link) -> None:
        if link.cut:
            for connection in self._between(source, target):
                connection.reset("keepalive watchdog timeout")
            self.loop.call_later(CUT_NOTICED_S, self._noticed, source, target, link)

    def copied_after_s(self, source: str, target: str) -> float:
        """How long after it was sent a copy of this request arrives; 0: it is not copied."""
        copies_s = self.link(source, target).copies_s
        if not copies_s or self.chance.random() >= _COPIED:
            return 0.0
        return _LATENCY_S + self.chance.random() * copies_s

    def heal(self, source: str, target: str) -> None:
        """Undo `cut`."""
        link = self.link(source, target)
        link.cut = False
        for direction in list(link.directions):
            direction.heal()

    def reset(self, one: str, other: str) -> None:
        """Every connection between two processes is gone."""
        for connection in [*self._between(one, other), *self._between(other, one)]:
            connection.reset("Connection reset by peer")

    def _between(self, one: str, other: str) -> list[NetConnection]:
        return [each for each in list(self.connections) if {each.client, each.server} == {one, other}]

    def die(self, process: str) -> None:
        """A process is killed: the others learn it by their connections, and nothing that it still does gets out."""
        self.dead.add(process)
        self.drop(process)

    def drop(self, process: str) -> None:
        """All connections of a process are gone."""
        self.listeners.pop(process, None)
        for connection in [each for each in self.connections if process in (each.client, each.server)]:
            connection.reset("Socket closed")

    def calm(self) -> None:
        """Every link is whole and quick."""
        for (source, target), link in list(self._links.items()):
            link.late_s, link.copies_s, link.reset_next = 0.0, 0.0, False
            if link.cut:
                self.heal(source, target)
