"""The arguments of `create_table` that every kind of table has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from duramen.client.model.asked_index import IndexFields
from log_tier.model.partitioner import Partitioner

__all__ = ["TableOptions"]


class TableOptions(TypedDict, total=False):
    """What `Database.create_table` says of each."""

    partition_by: str | Sequence[str] | None
    indexes: Mapping[str, IndexFields] | None
    history: str | int | None
    partitions: int | None
    replicas: int | None
    over: str | None
    partitioner: Partitioner | None
    retention_ms: int
    retention_bytes: int
    if_missing: bool
    timeout: float | None
