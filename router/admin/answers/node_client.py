"""The way to one node's reads: over the membership's connections, or none where there is only this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from log_tier.model.errors import Disconnected
from router.data.seam import DataPlane
from router.membership.live_membership import LiveMembership

__all__ = ["AskNode", "ask_members", "ask_only"]

T = TypeVar("T")


class AskNode(Protocol):
    """Asks one node, and nobody in its place."""

    async def __call__(self, node: str, question: Callable[[DataPlane], Awaitable[T]]) -> T:
        """Ask that node. Raises `Disconnected` where it is not there, and what the question raises."""
        ...


def ask_members(membership: LiveMembership) -> AskNode:
    """Over the connections of a membership."""

    async def ask(node: str, question: Callable[[DataPlane], Awaitable[T]]) -> T:
        member = membership.members.get(node)
        if member is None or not member.alive:
            reason = "it is not in the cluster's map" if member is None else member.view.reason
            raise Disconnected(f"node {node} is not there: {reason}")
        return await member.ask(question)

    return ask


def ask_only(node_id: str, connection: DataPlane) -> AskNode:
    """In a process that is the whole cluster."""

    async def ask(node: str, question: Callable[[DataPlane], Awaitable[T]]) -> T:
        if node != node_id:
            raise Disconnected(f"node {node} is not there: this server is node {node_id}, and the only one")
        return await question(connection)

    return ask
