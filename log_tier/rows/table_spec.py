"""The description of a table to be made, as one value: the constructor checks it, and nothing changes it later."""

from __future__ import annotations

from dataclasses import dataclass

from log_tier.model.errors import InvalidName, InvalidRequest, InvalidSchema, LimitExceeded
from log_tier.model.identifiers import PARTITIONS_MAX, RESERVED_PREFIX, SERVERS_TABLES, check_adopted_name, check_name
from log_tier.model.partitioner import Partitioner, check_partitioner
from log_tier.model.retention import FOREVER, Retention, check_retention
from log_tier.rows.definition import TableDefinition

__all__ = ["TableSpec", "check_unique"]


@dataclass(frozen=True, slots=True)
class TableSpec:
    """The description of a table that is to be made. Every instance is valid: the constructor raises what is wrong.

    `InvalidName` for a name that no table can have, `LimitExceeded` for a number of partitions that it cannot have,
    `InvalidSchema` for a unique index that two partitions would have to decide, `InvalidRequest` for the rest.
    """

    name: str
    partitions: int
    """1 to `PARTITIONS_MAX`. Over a topic of others the number of its partitions, or 0: as many as it has."""
    replicas: int = 0
    """Replicas of each partition; 0: one on each node, up to three."""
    over: str = ""
    """An existing topic of others that becomes the table's log; empty: the table has a topic of its own."""
    partitioner: str = ""
    """How a key finds its partition; empty: `"murmur2"` over a topic of others, as its producers do, else `"slot"`."""
    retention: Retention = FOREVER
    """How much of each partition's log stays."""
    definition: TableDefinition | None = None
    """What its keys and values are; None: bytes."""
    of_servers: bool = False
    """One of `SERVERS_TABLES`, which servers make for themselves. No message has this field."""

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.name.startswith(RESERVED_PREFIX) and not (self.of_servers and self.name in SERVERS_TABLES):
            raise InvalidName(
                f"names that begin with {RESERVED_PREFIX} are Duramen's own; choose another than {self.name}"
            )
        if self.over:
            check_adopted_name(self.over)
        if self.partitioner:
            check_partitioner(self.partitioner)
        if type(self.partitions) is not int:
            raise InvalidRequest(f"a table has a whole number of partitions, not {self.partitions!r}")
        if not (1 <= self.partitions <= PARTITIONS_MAX or (self.over and self.partitions == 0)):
            raise LimitExceeded(
                f"a table has 1 to {PARTITIONS_MAX} partitions, not {self.partitions}",
                limit=PARTITIONS_MAX,
                size=self.partitions,
            )
        # More than a message can carry, and than any cluster has nodes.
        if type(self.replicas) is not int or not 0 <= self.replicas < 1 << 32:
            raise InvalidRequest(
                f"a partition has at least one replica, not {self.replicas!r}; 0 leaves it to the cluster"
            )
        check_retention(self.retention)
        if self.over and self.retention.is_bounded:
            raise InvalidRequest(
                f"the log of {self.name} is the topic {self.over!r} of others: set the retention where the topic is"
            )
        if self.definition is not None:
            self._check_defined(self.definition)

    def _check_defined(self, definition: TableDefinition) -> None:
        if self.over:
            raise InvalidRequest(
                f"the log of {self.name} is the topic {self.over!r} of others, and such a table holds bytes and keeps "
                "no history: leave row, key, value and history out"
            )
        if self.partitioner not in ("", definition.partitioner):
            raise InvalidRequest(
                f"the keys of {self.name} are placed by {definition.partitioner}: leave the partitioner "
                f"{self.partitioner!r} out, and say partition_by"
            )
        check_unique(definition, self.partitions)

    @property
    def placed_by(self) -> Partitioner:
        """The partitioner that the table gets."""
        if self.definition is not None:
            return self.definition.partitioner
        return check_partitioner(self.partitioner or ("murmur2" if self.over else "slot"))


def check_unique(definition: TableDefinition, partitions: int) -> None:
    """Raise `InvalidSchema` for a unique index of a table with so many partitions of which two rows with equal values
    may lie in two partitions: two logs, neither of which knows of the other.
    """
    if partitions == 1:
        return
    deciding: set[str] = set()
    if isinstance(definition.key, tuple):
        deciding = {each.name for each in definition.key[: definition.partition_by or len(definition.key)]}
    for index in definition.indexes:
        if not index.unique or (deciding and deciding <= set(index.fields)):
            continue
        if deciding:
            missing = ", ".join(sorted(deciding - set(index.fields)))
            why = (
                f"it is unique inside of a partition, and has not the fields that decide the partition ({missing}), so "
                "two rows with equal values could lie in two partitions. Add it to the fields, partition by less "
                "(partition_by=), or make the table with one partition"
            )
        else:
            why = (
                "it is unique inside of a partition, and no field decides the partition: make the table with one "
                "partition"
            )
        raise InvalidSchema(f"the index {index.name}: {why}", field=index.name, reason=why)
