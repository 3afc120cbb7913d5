"""What the parts of a connection see of the whole, and what a connection asks of the server that has it. Types only.

`client.py` is made of the parts, so they know this protocol and not the class. The server makes the connections, so
they know what they need of it and not the server itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from log_tier.model.errors import DuramenError
from router.endpoints.resp.connection.lingering_close import LingeringClose
from router.endpoints.resp.context import CommandContext, ServerContext
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.replies import Problem
from router.endpoints.turns.shared_turns import SharedTurns

__all__ = ["AdmittedClient", "ConnectionContext", "ConnectionOwner"]


class ConnectionContext(CommandContext, Protocol):
    """A connection, as the paths of its commands see it. See `Client` for each field."""

    null: bytes
    queue: deque[RespCommand]
    under_way: Sequence[RespCommand]

    @property
    def idle(self) -> bool: ...
    def drop(self, reason: str) -> None: ...
    def report(self, error: DuramenError) -> Problem: ...


class AdmittedClient(CommandContext, Protocol):
    """A connection, as the server sees it."""

    touched: bool

    @property
    def unanswered(self) -> int: ...
    def answered(self) -> None: ...
    def trust_changed(self) -> bool: ...
    def recheck(self) -> None: ...
    def close(self, reason: str) -> None: ...
    @property
    def held_bytes_max(self) -> int: ...
    def held_bytes(self) -> int: ...
    def evict(self, reason: str) -> None: ...


class ConnectionOwner(ServerContext, Protocol):
    """The server that has a connection. See `RespServer`."""

    stall_s: float
    socket_path: str
    lingering: set[LingeringClose]
    closing: bool
    turns: SharedTurns

    def next_id(self) -> int: ...
    def admit(self, client: AdmittedClient) -> bool: ...
    def leave(self, client: AdmittedClient) -> None: ...
    def touch(self, client: AdmittedClient) -> None: ...
