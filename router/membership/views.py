"""What a router knows of the nodes: values, renewed by every status message; immutable, so a choice sees one view."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from serving_tier.proto import node_pb2

__all__ = ["Membership", "NodeView", "ReplicaView", "ReportedState", "TaskView"]


class ReportedState(StrEnum):
    """What a node says of a replica, by the names of the wire, and what this process concludes where it says nothing.

    A newer node may report a name that is not here: then it is equal to none of these.
    """

    BOOTSTRAPPING = "bootstrapping"
    REPLAYING = "replaying"
    READY = "ready"
    BEHIND = "behind"
    STOPPED = "stopped"
    LOST = "lost"
    """Its node is not there; never reported."""
    UNKNOWN = "unknown"
    """Its node is there and has not named it; never reported."""


class ReplicaView(NamedTuple):
    """How a replica stood when its node last said so."""

    applied: Offset = NOTHING
    latest: Offset = NOTHING
    lag_ms: int = 0
    """How long it has not been level with the log; 0: it is."""
    state: str = ReportedState.BOOTSTRAPPING
    """The value of a `ReportedState`."""
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
    served_s: int = 0
    """Keys read and records applied a second, on average over the last minutes; 0 of a node that does not say."""
    reads_s: int = 0
    """Of those, the keys that were read."""
    proven: Offset = NOTHING
    """Up to here it was compared with what the log holds."""
    differs: str = ""
    """The offsets at which it, or a watch of it, differs from the log, in words."""


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
    replicas: Mapping[PartitionId, ReplicaView] = field(default_factory=dict)
    tasks: tuple[TaskView, ...] = ()
    disk_free: int = 0
    disk_used: int = 0
    clock_skew_ms: int = 0
    """Its clock minus this process's, the way of the message included."""
    uptime_s: int = 0
    insecure: bool = False
    """Other machines reach it in plain TCP."""
    without_users: bool = False
    """Other machines reach it, and the cluster has no users."""


class Membership(Protocol):
    """All registered nodes."""

    def nodes(self) -> Mapping[str, NodeView]:
        """By id; those that do not answer are there too, with `alive` False."""
        ...

    async def measure(self) -> None:
        """Renew what a view holds and is costly to look up, where nobody else does that: sizes, for people."""
        ...

    async def wait_for(self, predicate: Callable[[], bool], *, timeout: float) -> None:
        """Return when `predicate` holds of what is known of the nodes. Raises `DeadlineExceeded`."""
        ...

    async def digest(self, node: str, request: node_pb2.DigestRequest, *, timeout: float) -> node_pb2.DigestReply:
        """Ask one node for a replica's digest. Raises `Disconnected`, `NotHosted`, `ReplicaBehind`, ..."""
        ...

    async def tally(self, node: str, request: node_pb2.TallyRequest, *, timeout: float) -> node_pb2.TallyReply:
        """Ask one node for a replica's tally. Raises as `digest` does."""
        ...

    def failures(self) -> Iterator[tuple[str, DuramenError]]:
        """The nodes that do not answer, and why."""
        ...

    async def close(self) -> None:
        """Stop following. Idempotent."""
        ...
