"""What the benchmark asks of a contender."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

__all__ = ["Driver", "EmbeddedStore", "PortDriver"]


class Driver(Protocol):
    """A server and the client that drives it from this process."""

    version: str
    """Name and version of what serves; known after `start`."""
    note: str
    """What is behind an acknowledged put, and what the client was set to; known after `start`."""

    @property
    def server_pid(self) -> int:
        """The process whose memory is the server's (with its children)."""

    async def start(self, folder: Path) -> None:
        """Start the server on what `folder` holds (at first nothing) and connect; return when a call can be made."""

    async def settle(self) -> None:
        """What a fair operator would do between a bulk load and serving; most need nothing."""

    async def stop(self) -> None:
        """Disconnect and end the server cleanly; also after a `start` that failed half-way."""

    async def put(self, key: bytes, value: bytes) -> None:
        """Return when the server has acknowledged the write."""

    async def get(self, key: bytes) -> bytes | None:
        """The value, or None where there is none."""

    async def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Up to 100 pairs in the fewest round trips that the peer has for it."""

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of up to 100 keys, in the keys' order."""


@runtime_checkable
class PortDriver(Driver, Protocol):
    """A server that another program or another client can drive, too: with `redis-benchmark`, over a bare socket."""

    @property
    def port(self) -> int:
        """Where it does, on 127.0.0.1; known after `start`."""

    @property
    def access(self) -> tuple[str, ...]:
        """What `redis-benchmark` has to be given to get in: TLS, a user; known after `start`."""


class EmbeddedStore(Protocol):
    """A store inside this process."""

    version: str
    note: str

    def open(self, folder: Path) -> None:
        """Open or create the store in `folder`."""

    def load(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Put many pairs, durably by the time it returns. Never timed."""

    def get(self, key: bytes) -> bytes | None:
        """One read in a transaction of its own."""

    def close(self) -> None:
        """Give everything back."""
