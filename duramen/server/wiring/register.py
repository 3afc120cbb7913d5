"""Registering this node, its identity and its address with the catalog."""

from __future__ import annotations

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import NodeEntry
from log_tier.catalog.commands import RegisterNode
from log_tier.model.errors import CommandRejected, NodeIdTaken

__all__ = ["log_url_for_clients", "passes_log", "register_node"]


async def register_node(catalog: Catalog, command: RegisterNode) -> None:
    """Submit `command`, unless the catalog knows it all. Raises `NodeIdTaken` where another folder has that id."""
    known = catalog.map.nodes.get(command.node)
    if known is not None and _said(known) == _said(command):
        return
    try:
        await catalog.submit(command)
    except CommandRejected as error:
        raise NodeIdTaken(error.message, node=command.node) from error


def _said(node: NodeEntry | RegisterNode) -> tuple[str, str, str]:
    return node.address, node.identity, node.peer_address


def log_url_for_clients(log_url: str, *, secured: bool) -> str:
    """The log's address as a server gives it to its clients; empty if they write through servers.

    The log of a cluster that is `secured` by certificates takes calls of servers only. A Kafka URL is not passed on: it
    may hold secrets, and clients need no rights on the cluster.
    """
    return log_url.partition("?")[0] if log_url.startswith("grpc://") and not secured else ""


def passes_log(log_url: str, *, secured: bool) -> bool:
    """Does a router pass the log on to users? Where it is Duramen's own, and takes calls of servers only."""
    return secured and log_url.startswith("grpc://")
