"""From the arguments of `create_table` to the description of the table that is to be made."""

from __future__ import annotations

from typing import Final

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import check_adopted_name
from log_tier.model.partitioner import Partitioner, check_partitioner
from log_tier.model.retention import Retention
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_spec import TableSpec

__all__ = ["PARTITIONS_DEFAULT", "asked_table"]

# Enough for a table to be spread over a few nodes later on; each costs one sync of its own in a write to all of them.
PARTITIONS_DEFAULT: Final = 8


def asked_table(
    name: str,
    definition: TableDefinition | None,
    *,
    partitions: int | None,
    replicas: int | None,
    over: str | None,
    partitioner: Partitioner | None,
    retention: Retention,
) -> TableSpec:
    """The table that they ask for. Raises `InvalidRequest`, and what `TableSpec` does."""
    if over is not None:
        check_adopted_name(over)
    if partitioner is not None:
        check_partitioner(partitioner)
    if replicas is not None and (type(replicas) is not int or replicas < 1):
        raise InvalidRequest(f"replicas is a whole number, at least 1, or None, not {replicas!r}")
    return TableSpec(
        name,
        partitions if partitions is not None else 0 if over else PARTITIONS_DEFAULT,
        replicas=replicas or 0,
        over=over or "",
        partitioner=partitioner or "",
        retention=retention,
        definition=definition,
    )
