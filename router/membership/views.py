"""What a router knows of the nodes: values, renewed by every status message; immutable, so a choice sees one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from serving_tier.proto import node_pb2

__all__ = ["Membership", "NodeView", "ReplicaName", "ReplicaView", "TaskView"]

ReplicaName = tuple[TableId, Partition]


class ReplicaView(NamedTuple):
    """How a replica stood when its node last said so."""

    applied: Offset = NOTHING
    latest: Offset = NOTHING
    lag_ms: int = 0
    """How long it has not been level with the log; 0: it is."""
    state: str = "bootstrapping"
    """bootstrapping, replaying, ready, behind, stopped."""
    reason: str = ""
    bytes: int = 0
    keys: int = 0
    source: str = ""
    """Where its content came from: log, snapshot …, peer …."""
    void: int = 0
    """Records so far that no table can hold."""
    version: int = 1
    """Which version of the table is read there."""
    level: tuple[int, ...] = ()
    """The standby versions that are level with it."""


class TaskView(NamedTuple):
    """How far a node is with a task of a job."""

    job: int
    task: int
    phase: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class NodeView:
    """A registered node as a router sees it."""

    id: str
    address: str
    alive: bool = False
    """Its status stream is there, and not silent."""
    reason: str = ""
    """Why it counts as lost."""
    silent_ms: int = 0
    """Since its last status message."""
    map_version: Offset = NOTHING
    load: int = 0
    replicas: Mapping[ReplicaName, ReplicaView] = field(default_factory=dict)
    tasks: tuple[TaskView, ...] = ()
    disk_free: int = 0
    disk_used: int = 0
    clock_skew_ms: int = 0
    """Its clock minus this process's, the way of the message included."""
    uptime_s: int = 0


class Membership(Protocol):
    """All registered nodes."""

    def nodes(self) -> Mapping[str, NodeView]:
        """By id; those that do not answer are there too, with `alive` False."""
        ...

    async def digest(self, node: str, request: node_pb2.DigestRequest, *, timeout: float) -> node_pb2.DigestReply:
        """Ask one node for a replica's digest. Raises `Disconnected`, `NotHosted`, `ReplicaBehind`, ..."""
        ...

    def failures(self) -> Iterator[tuple[str, DuramenError]]:
        """The nodes that do not answer, and why."""
        ...
