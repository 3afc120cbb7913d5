"""What a call asks for: rights on keys of a table, or the cluster's administration. Immutable.

A demand says what is missing of a user's rights for it, as the text of the grant that would do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import read_header
from log_tier.model.errors import BatchRefused
from log_tier.model.record import CONDITION_SHIFT, OPERATION_MASK, READ_CHANGES, Condition, Operation
from log_tier.trust.grants import Right, key_prefix_text
from log_tier.trust.rights import Rights

__all__ = [
    "ANY_USER",
    "CLUSTER_ADMIN",
    "SERVERS_ONLY",
    "AllDemands",
    "BatchDemand",
    "Demand",
    "KeyDemand",
    "PrefixDemand",
    "RangeDemand",
    "SpecialDemand",
    "only_reads",
    "tables_of",
]


@dataclass(frozen=True, slots=True)
class KeyDemand:
    """A right on each of some keys. A batch is one demand: all of its keys are covered, or all is refused.

    Without keys: any right on any key of the table, as a question about the table itself needs it.
    """

    right: Right
    table: str
    keys: tuple[bytes, ...]

    def lacks(self, rights: Rights) -> str:
        """The grant that is missing; empty: none."""
        if not self.keys:
            return "" if rights.sees(self.table) else f"{self.right} {self.table}"
        for key in self.keys:
            if not rights.may(self.right, self.table, key):
                return _on_key(self.right, self.table, key)
        return ""


@dataclass(frozen=True, slots=True)
class PrefixDemand:
    """A right on every key that begins with a prefix. Empty: on the whole table, as a watch or `admin` needs it."""

    right: Right
    table: str
    prefix: bytes = b""
    texts: tuple[bytes, ...] = ()
    """Keys as the call has them, as text, for the audit: no grant is about them."""
    rows: tuple[bytes, ...] = ()
    """Rows as text that are put without a key, which is inside: one for each empty text, for the audit as well."""

    def lacks(self, rights: Rights) -> str:
        """The grant that is missing; empty: none."""
        if rights.may_prefix(self.right, self.table, self.prefix):
            return ""
        return _on_key(self.right, self.table, self.prefix)


@dataclass(frozen=True, slots=True)
class RangeDemand:
    """A right on every key from `start` up to and without `end`. `end` None: up to the table's end."""

    right: Right
    table: str
    start: bytes = b""
    end: bytes | None = None

    def lacks(self, rights: Rights) -> str:
        """The grant that is missing; empty: none."""
        if rights.may_range(self.right, self.table, self.start, self.end):
            return ""
        return f"{self.right} {self.table}, on a prefix that holds the whole range of keys"


@dataclass(frozen=True, slots=True)
class BatchDemand:
    """What the records of an encoded batch need: `write` on every key, and `read` where a record tells what was there.

    That is one with a condition, and an update, whose outcome shows the value. A batch of plain puts of a user who may
    write the whole table is not decoded.
    """

    table: str
    batch: bytes

    def lacks(self, rights: Rights) -> str:
        """The grant that is missing; empty: none. Raises `BatchRefused`, `UnknownFormat`."""
        whole = rights.may(Right.WRITE, self.table, b"")
        if whole and read_header(self.batch).is_plain:
            return ""
        columns = decode_batch(self.batch).columns
        if not whole:
            for key in columns.keys:
                if not rights.may(Right.WRITE, self.table, key):
                    return _on_key(Right.WRITE, self.table, key)
        if columns.attributes is None:
            return ""
        return self._lacks_reading(rights, columns.keys, columns.attributes)

    def _lacks_reading(self, rights: Rights, keys: Sequence[bytes], attributes: Sequence[int]) -> str:
        reads_all = rights.may(Right.READ, self.table, b"")
        for key, attribute in zip(keys, attributes, strict=True):
            operation = attribute & OPERATION_MASK
            if operation == Operation.BARRIER:
                raise BatchRefused("a record claims to be a barrier: only the servers of a cluster write those")
            tells = operation in READ_CHANGES or attribute >> CONDITION_SHIFT & 3 != Condition.NONE
            if tells and not reads_all and not rights.may(Right.READ, self.table, key):
                return _on_key(Right.READ, self.table, key)
        return ""


@dataclass(frozen=True, slots=True)
class SpecialDemand:
    """What no grant on one table allows."""

    missing: str
    """What the caller lacks, for a refusal."""
    is_met: Callable[[Rights], bool]

    def lacks(self, rights: Rights) -> str:
        """What is missing; empty: nothing."""
        return "" if self.is_met(rights) else self.missing


@dataclass(frozen=True, slots=True)
class AllDemands:
    """Several demands of one call: all of them, or all is refused."""

    demands: tuple[Demand, ...]

    def lacks(self, rights: Rights) -> str:
        """The first grant that is missing; empty: none."""
        return next((missing for demand in self.demands if (missing := demand.lacks(rights))), "")


CLUSTER_ADMIN: Final = SpecialDemand("admin *", lambda rights: rights.is_superuser)
"""Nodes, jobs of the cluster, users."""
SERVERS_ONLY: Final = SpecialDemand("a certificate of a server of this cluster", lambda _: False)
"""What servers ask each other: log, replication, snapshots."""
ANY_USER: Final = SpecialDemand("a user", lambda _: True)
"""What a caller may do once it proved who it is."""

Demand = KeyDemand | PrefixDemand | RangeDemand | BatchDemand | SpecialDemand | AllDemands


def only_reads(demand: Demand) -> bool:
    """Does a call that demands this change nothing in a table, so that it may be ended at any time?"""
    if isinstance(demand, AllDemands):
        return all(map(only_reads, demand.demands))
    return isinstance(demand, KeyDemand | PrefixDemand | RangeDemand) and demand.right is Right.READ


def tables_of(demand: Demand) -> tuple[str, ...]:
    """The names of the tables that a demand is about."""
    if isinstance(demand, AllDemands):
        return tuple(table for each in demand.demands for table in tables_of(each))
    return () if isinstance(demand, SpecialDemand) else (demand.table,)


def _on_key(right: Right, table: str, key: bytes) -> str:
    return f"{right} {table}" + (f" --key {key_prefix_text(key)}" if key else "")
