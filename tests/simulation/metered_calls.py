"""Callers of a simulated cluster whose every request is in the ledger of quotas: of gRPC and of the Redis protocol.

A call of gRPC is noted where it leaves the client, so each try of the client's own retries counts by itself.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from duramen import aio
from duramen.client.database import Database
from duramen.testing.machine.resp_words import RawError, Status
from duramen.testing.machine.simulated_grpc import SimulatedTransport
from duramen.testing.machine.simulated_wire import WireClient, WireCut
from log_tier.model.errors import DeadlineExceeded, DuramenError, WriteUnknown
from log_tier.rpc.core import grpc_core
from log_tier.rpc.credentials import bearer_header
from log_tier.rpc.problems import error_of_call
from log_tier.rpc.transport import TRANSPORT
from router.remote.grpc_connection import GrpcConnection
from simulation.book import Broken
from simulation.cluster_world import ClusterWorld
from simulation.quota_ledger import Outcome, QuotaLedger, Reply

__all__ = ["MeteredCaller", "MeteredWire"]

_PORT: Final = ":7070"
_WRITE: Final = "KeyValue/Write"
_ON_TABLE: Final = (_WRITE, "KeyValue/Read", "Tables/Find")
_HAS: Final = " has a quota of "
_SAID_WAIT: Final = re.compile(r"try again in ([0-9.]+) s")
_TRYAGAIN: Final = "TRYAGAIN "

_Command = tuple[bytes, ...]


def _key(ledger: QuotaLedger, user: str) -> bytes:
    """A key that nobody has written, and nobody writes again."""
    ledger.keys += 1
    return f"{user}:{ledger.keys}".encode()


@dataclass
class _Try:
    """A call that the client has sent once."""

    method: str
    outcome: Outcome | Literal["lost"] = "lost"
    """`lost`, while it is under way."""


class _MeteredTransport:
    """A process's end of the network, by one user's token, whose single calls are noted."""

    def __init__(self, world: ClusterWorld, ledger: QuotaLedger, user: str) -> None:
        authorization = bearer_header(world.tokens[user])
        self._inner = SimulatedTransport(world.network, "clients", authorization=authorization)
        self.ledger, self.user = ledger, user
        self.tries: list[_Try] = []

    def channel(self, target: str) -> Any:
        return _MeteredChannel(self._inner.channel(target), self, target.removesuffix(_PORT))

    async def noted(self, server: str, made: _Try, request: Any, call: Awaitable[Any]) -> Any:
        asked = self.ledger.ask(server, self.user)
        size = int(request.ByteSize())
        try:
            reply = await call
            made.outcome = "passed"
            if self._is_judged(made.method):
                self.ledger.answered(asked, [Reply("passed", size, int(reply.ByteSize()))])
            else:
                self.ledger.came(asked)
        except grpc_core().aio.AioRpcError as failure:
            error = error_of_call(failure, server)
            # Of the network's own failures, none has our error in it.
            if failure.trailing_metadata():
                refused = error.code == "overloaded" and _HAS in error.message
                outcome: Outcome = "refused" if refused else "failed"
                made.outcome = outcome
                wait_s = int(error.fields.get("wait_ms", 0)) / 1000
                if self._is_judged(made.method):
                    self.ledger.answered(asked, [Reply(outcome, wait_s=wait_s, words=error.message)])
                else:
                    self.ledger.came(asked)
            raise
        finally:
            if made.outcome == "lost":
                self.ledger.lost(asked)
        return reply

    def _is_judged(self, method: str) -> bool:
        """Is it a call that a quota of this ledger counts? One of a table counts what is about the table."""
        return not self.ledger.is_shared or method.endswith(_ON_TABLE)


class _NotedStream:
    """A stream, of which is noted that it has begun: its call is counted, too."""

    def __init__(self, ledger: QuotaLedger, user: str, server: str, inner: Any) -> None:
        self._ledger, self._inner = ledger, inner
        self._asked = ledger.ask(server, user)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __aiter__(self) -> AsyncIterator[Any]:
        has_come = False
        try:
            async for reply in self._inner:
                if not has_come:
                    has_come = True
                    self._ledger.came(self._asked)
                yield reply
        finally:
            if not has_come:
                self._ledger.lost(self._asked)


class _MeteredChannel:
    def __init__(self, inner: Any, transport: _MeteredTransport, server: str) -> None:
        self._inner, self._transport, self._server = inner, transport, server

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: Any, **words: Any) -> Any:
        start = self._inner.unary_unary(method, request_serializer, response_deserializer, **words)

        def noted(request: Any, *, timeout: float | None = None) -> Any:
            made = _Try(method)
            self._transport.tries.append(made)
            return self._transport.noted(self._server, made, request, start(request, timeout=timeout))

        return noted

    def unary_stream(self, method: str, request_serializer: Any, response_deserializer: Any, **words: Any) -> Any:
        start = self._inner.unary_stream(method, request_serializer, response_deserializer, **words)

        def noted(request: Any, *, timeout: float | None = None) -> Any:
            return _NotedStream(
                self._transport.ledger, self._transport.user, self._server, start(request, timeout=timeout)
            )

        return noted

    async def close(self, grace: float | None = None) -> None:
        await self._inner.close(grace)


class MeteredCaller:
    """A user's way to one server by gRPC: the client library, and calls that are made once. Belongs to the task that
    opens it, whose proof it is.
    """

    def __init__(self, world: ClusterWorld, ledger: QuotaLedger, user: str, server: str) -> None:
        self._ledger, self.user, self.server = ledger, user, server
        self._opened = AsyncExitStack()
        self._transport = _MeteredTransport(world, ledger, user)
        self._database: Database
        self._once: GrpcConnection

    async def __aenter__(self) -> MeteredCaller:
        TRANSPORT.set(self._transport)
        self._once = GrpcConnection(f"{self.server}{_PORT}", pass_on=True)
        self._opened.push_async_callback(self._once.close)
        return self

    async def connect(self) -> None:
        """Connect the client library, which asks the server several questions. Raises what they end with."""
        connecting = aio.connect(f"{self.server}{_PORT}", timeout=1.0, direct=False)
        self._database = await self._opened.enter_async_context(await connecting)

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    async def ask(self) -> None:
        """A question, once."""
        with suppress(DuramenError):
            await self._once.find_table(self._ledger.table, timeout=1.0)

    async def get(self) -> None:
        """Read a key that was written, as the client library does."""
        key = next(reversed(self._ledger.written), b"none")
        await self._database.table(self._ledger.table).get(key, level="eventual")

    async def put(self, size: int, *, timeout: float) -> None:
        """Write a key, as the client library does. Raises `Broken` where all that was heard are
        refusals by a quota, and the library says that the write may have happened.
        """
        ledger, tries, key = self._ledger, self._transport.tries, _key(self._ledger, self.user)
        first = len(tries)
        try:
            await self._database.table(ledger.table).put(key, b"v" * size, timeout=timeout)
        except DuramenError as error:
            if {each.outcome for each in tries[first:] if each.method.endswith(_WRITE)} == {"refused"}:
                ledger.refused[key] = error.message
                if isinstance(error, (WriteUnknown, DeadlineExceeded)):
                    raise Broken(
                        "untouched", f"{self.server} refused a write of {self.user}, and it ended with {error!r}"
                    ) from error
        else:
            ledger.written[key] = None


class MeteredWire:
    """A user's connection to one endpoint of the Redis protocol. Raises `WireCut` where it ends."""

    def __init__(self, ledger: QuotaLedger, user: str, server: str, client: WireClient) -> None:
        self._ledger, self.user, self.server = ledger, user, server
        self._client = client

    @classmethod
    async def connect(
        cls, world: ClusterWorld, ledger: QuotaLedger, chance: random.Random, user: str, server: str
    ) -> MeteredWire:
        """Connect, prove it, and select the table: nothing of that is counted, but for the bytes of the replies, which
        are under way as long as it is.
        """
        asked, has_come = ledger.ask(server, user), False
        try:
            client = await world.connected(chance, server, user)
            try:
                (reply,) = await client.call([(b"SELECT", ledger.table.encode())])
                if isinstance(reply, RawError):
                    raise WireCut([])
            except BaseException:
                client.close()
                raise
            has_come = True
        finally:
            (ledger.came if has_come else ledger.lost)(asked)
        return cls(ledger, user, server, client)

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    async def call(self, chance: random.Random, *, most: int = 1) -> None:
        """Send up to so many commands together, or as one transaction."""
        commands = [self._command(chance) for _ in range(chance.randrange(1, most + 1))]
        together = len(commands) > 1 and chance.random() < 0.3
        sent = [(b"MULTI",), *commands, (b"EXEC",)] if together else commands
        asked = self._ledger.ask(self.server, self.user)
        is_answered = False
        try:
            replies = await self._client.call(sent)
            is_answered = True
        finally:
            if not is_answered:
                self._ledger.lost(asked)
        done = replies[-1] if together else None
        replies = replies[1:-1] if together else replies
        noted = [
            self._reply(command, reply, is_queued=together) for command, reply in zip(commands, replies, strict=True)
        ]
        is_refused = any(each.outcome == "refused" for each in noted)
        for number, (command, reply) in enumerate(zip(commands, noted, strict=True)):
            if command[0] != b"SET":
                continue
            if reply.outcome == "refused" or (together and is_refused):
                self._ledger.refused[command[1]] = reply.words
            elif done[number] == Status("OK") if isinstance(done, list) else not together and reply.outcome == "passed":
                self._ledger.written[command[1]] = None
        self._ledger.answered(asked, _as_one(noted) if together else noted)
        if together and is_refused:
            words = [each.words for each in noted if each.outcome == "refused"]
            self._ledger.cut_short(asked, words, is_whole=noted[0].outcome == "refused", is_ended=_is_ended(done))

    def _command(self, chance: random.Random) -> _Command:
        if chance.random() < 0.5:
            return (b"GET", next(reversed(self._ledger.written), b"none"))
        return (b"SET", _key(self._ledger, self.user), b"v" * chance.choice((1, 50, 300)))

    def _reply(self, command: _Command, reply: Any, *, is_queued: bool) -> Reply:
        size = sum(map(len, command))
        if not isinstance(reply, RawError):
            is_value = isinstance(reply, bytes) and not is_queued
            return Reply("passed", size, len(reply) if is_value else 0)
        said = _SAID_WAIT.search(reply.text)
        if not reply.text.startswith(_TRYAGAIN) or _HAS not in reply.text or said is None:
            return Reply("failed", words=reply.text)
        return Reply("refused", wait_s=float(said[1]), words=reply.text)


def _is_ended(done: Any) -> bool:
    """Has EXEC refused to run what it was given?"""
    return isinstance(done, RawError) and done.text.startswith("EXECABORT")


def _as_one(replies: Sequence[Reply]) -> Sequence[Reply]:
    """A transaction is let in as one: by its first command, whatever the others take."""
    if replies[0].outcome != "passed":
        return replies
    passed = [each for each in replies if each.outcome == "passed"]
    return [Reply("passed", sum(each.size for each in passed), calls=len(passed))]
