"""Another schema for the rows of a table."""

from __future__ import annotations

from typing import Protocol

from duramen.client.rows.asked_definition import AskedDefinition
from duramen.client.rows.opened import FindsDefinitions
from duramen.client.rows.shapes.renamed import with_record_name
from log_tier.rows.alter_table import SchemaChange, TableChange
from log_tier.rows.evolution import EvolutionMode

__all__ = ["ChangesDefinitions", "alter_rows"]


class ChangesDefinitions(FindsDefinitions, Protocol):
    """The same, and the way to another definition."""

    async def change(self, change: TableChange, deadline: float) -> None:
        """Give the table another definition. Asked again, it goes on where it stood."""
        ...


async def alter_rows(
    lookup: ChangesDefinitions, asked: AskedDefinition, mode: EvolutionMode, if_definition: int, deadline: float
) -> None:
    """Give the rows of the table another schema; see `RowTable.alter`. `deadline` is on the event loop's clock."""
    assert asked.shape is not None, "rows have a shape"
    schema = asked.shape.schema
    if asked.shape.hint is not None:
        # The name of a class is its program's. Readers of earlier schemas find the record by the name that it has.
        _, present = await lookup.definition(deadline)
        if present is not None and present.schemas:
            schema = with_record_name(schema, present.schemas[-1].schema.name)
    await lookup.change(SchemaChange(schema, mode, if_definition), deadline)
