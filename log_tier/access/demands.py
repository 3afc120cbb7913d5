"""What a call asks for: a right on keys of a table, or the cluster's administration. Immutable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from log_tier.trust.grants import Right, key_prefix_text

__all__ = [
    "ANY_USER",
    "CLUSTER_ADMIN",
    "SERVERS_ONLY",
    "Demand",
    "KeyDemand",
    "PrefixDemand",
    "RangeDemand",
    "SpecialDemand",
]


@dataclass(frozen=True, slots=True)
class KeyDemand:
    """A right on each of some keys. A batch is one demand: all of its keys are covered, or all is refused."""

    right: Right
    table: str
    keys: tuple[bytes, ...]

    @property
    def missing(self) -> str:
        """The grant that would do, for a refusal."""
        return f"{self.right} {self.table}" + (f" --key {key_prefix_text(self.keys[0])}" if len(self.keys) == 1 else "")


@dataclass(frozen=True, slots=True)
class PrefixDemand:
    """A right on every key that begins with a prefix. Empty: on the whole table, as a watch or `admin` needs it."""

    right: Right
    table: str
    prefix: bytes = b""

    @property
    def missing(self) -> str:
        """The grant that would do, for a refusal."""
        return f"{self.right} {self.table}" + (f" --key {key_prefix_text(self.prefix)}" if self.prefix else "")


@dataclass(frozen=True, slots=True)
class RangeDemand:
    """A right on every key from `start` up to and without `end`. `end` None: up to the table's end."""

    right: Right
    table: str
    start: bytes = b""
    end: bytes | None = None

    @property
    def missing(self) -> str:
        """The grant that would do, for a refusal."""
        return f"{self.right} {self.table}, on a prefix that holds the whole range of keys"


@dataclass(frozen=True, slots=True)
class SpecialDemand:
    """What no grant on one table allows."""

    missing: str
    """What the caller lacks, for a refusal."""


CLUSTER_ADMIN: Final = SpecialDemand("admin *")
"""Nodes, jobs of the cluster, users."""
SERVERS_ONLY: Final = SpecialDemand("a certificate of a server of this cluster")
"""What servers ask each other: log, replication, snapshots."""
ANY_USER: Final = SpecialDemand("a user")
"""Whatever a caller may do once it proved who it is."""

Demand = KeyDemand | PrefixDemand | RangeDemand | SpecialDemand
