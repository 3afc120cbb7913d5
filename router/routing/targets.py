"""The targets of a question: a node of the membership, or a server that may reach what this process does not.

A client may sit where the nodes' addresses mean nothing (behind a gateway, outside of the cluster's network). For the
choice of a replica such a server is one more candidate, better than a node that does not answer and worse than any
that does; so reads, scans and watches need to know nothing of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, Protocol, TypeVar

from router.data.seam import DataPlane

__all__ = ["THROUGH", "Askable", "Through"]

T = TypeVar("T")

THROUGH: Final = ""
"""The id of the server among the candidates: no node has an empty one."""


class Askable(Protocol):
    """`router.membership.member.Member`, or `Through`."""

    @property
    def id(self) -> str:
        """A node's id, or `THROUGH`."""
        ...

    @property
    def alive(self) -> bool:
        """Can an answer be expected, as far as this process knows?"""
        ...

    async def ask(self, question: Callable[[DataPlane], Awaitable[T]]) -> T:
        """Ask over its connection."""
        ...

    def follow(self, question: Callable[[DataPlane], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """Follow a stream over its connection."""
        ...


class Through:
    """A server that passes requests on."""

    id = THROUGH
    alive = True

    def __init__(self, server: DataPlane) -> None:
        self._server = server

    async def ask(self, question: Callable[[DataPlane], Awaitable[T]]) -> T:
        return await question(self._server)

    async def follow(self, question: Callable[[DataPlane], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        async with aclosing(question(self._server)) as replies:
            async for reply in replies:
                yield reply
