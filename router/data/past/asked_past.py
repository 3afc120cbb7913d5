"""The state of a table that a read of its past names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from log_tier.model.errors import DuramenError, InvalidRequest, InvalidToken
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.table_ref import TableRef
from router.data.seam import TableAdmin

__all__ = ["AskedPast", "refused_state"]


class AskedPast(NamedTuple):
    """A state that a read of the past names, and the table."""

    table: TableRef
    offsets: Mapping[Partition, Offset]
    """Those that a token names; it may name some of the partitions alone."""
    time_ms: int = 0
    """The last state of each partition that is not later, in ms since 1970; 0: the offsets name it."""

    def offset(self, partition: Partition, what: str = "which the read covers") -> Offset:
        """The offset of one partition. Raises `InvalidToken`. `what`: what the partition has to do with the read."""
        offset = self.offsets.get(partition)
        if offset is None:
            raise InvalidToken(
                f"the token names no offset of partition {partition} of {self.table.name}, {what}: take one of the "
                "whole table (end_token()), or of a write to that partition"
            )
        return offset


async def refused_state(admin: TableAdmin, table: TableRef, refused: InvalidToken, timeout: float) -> DuramenError:
    """Why a table is not read at a state that `past_part` or `in_past` refused: it keeps no history, where that is so,
    whatever the token names. One request. Raises `TableNotFound`.
    """
    definition = await admin.definition(table.id, timeout=timeout)
    if definition is not None and definition.keeps is not None:
        return refused
    return InvalidRequest(
        f"table {table.name} keeps no history: only a table that was created with history= is read as it was"
    )
