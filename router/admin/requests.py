"""What an operator may have done, in words that belong to no protocol."""

from __future__ import annotations

from typing import NamedTuple

from log_tier.model.identifiers import Partition

__all__ = [
    "Change",
    "Compact",
    "Discard",
    "Drain",
    "Move",
    "Rebalance",
    "RestoreNode",
    "RestoreTable",
    "Retire",
    "Rollback",
    "SetReplicas",
    "Stage",
    "Swap",
    "TakeSnapshots",
    "Trim",
]


class Move(NamedTuple):
    """One replica goes from one node to another."""

    table: str
    partition: Partition
    source: str
    target: str


class Drain(NamedTuple):
    """Everything goes away from a node, and nothing new comes to it."""

    node: str
    undo: bool = False
    """It may take replicas again; none comes back by itself."""


class Retire(NamedTuple):
    """The same, and the node is forgotten when it is empty."""

    node: str


class Rebalance(NamedTuple):
    """The live nodes hold equally many replicas, by the fewest moves."""


class SetReplicas(NamedTuple):
    """Each partition of a table gets so many replicas."""

    table: str
    replicas: int


class TakeSnapshots(NamedTuple):
    """A snapshot of each partition."""

    table: str = ""
    """Empty: of all tables."""


class RestoreNode(NamedTuple):
    """Every replica of a node is built anew."""

    node: str
    source: str = "auto"
    """auto, snapshot, peer, log."""


class RestoreTable(NamedTuple):
    """A new table gets what a table held once. Exactly one of `token` and `time_ms` is given."""

    table: str
    target: str
    """The new table's name."""
    token: str = ""
    """Each partition that it names is restored at its offset; the others at the time of the newest record it names."""
    time_ms: int | None = None
    """Milliseconds since 1970, on the log's clock."""


class Trim(NamedTuple):
    """The log drops what is old."""

    table: str
    partition: Partition | None = None
    """None: every partition."""
    before: int | None = None
    """The first offset that stays; None: as much as the newest snapshot covers."""


class Compact(NamedTuple):
    """The log drops what later writes made void."""

    table: str
    partition: Partition | None = None
    below: int | None = None
    """Offsets below it are compacted; None: as much as the newest snapshot covers."""


class Stage(NamedTuple):
    """Every replica of a table fetches a version of it, verifies it, and follows the log with it."""

    table: str
    url: str
    """Where the version was built, as every node can reach it; `empty:` for one with nothing in it."""


class Swap(NamedTuple):
    """A staged version becomes the live one, in every partition at one offset of its log."""

    table: str
    version: int | None = None
    """None: the newest one that is staged."""
    keep: int | None = None
    """How many of the older ones stay for a rollback; None: one."""


class Rollback(NamedTuple):
    """A version that was live before becomes the live one again."""

    table: str
    version: int | None = None
    """None: the one that was live last."""


class Discard(NamedTuple):
    """A version that is not live is given up, and removed from every node."""

    table: str
    version: int


Change = (
    Move
    | Drain
    | Retire
    | Rebalance
    | SetReplicas
    | TakeSnapshots
    | RestoreNode
    | RestoreTable
    | Trim
    | Compact
    | Stage
    | Swap
    | Rollback
    | Discard
)
