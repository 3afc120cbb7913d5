"""A change of a table's schema: what is asked for, and the catalog's command that begins it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from log_tier.model.errors import InvalidRequest, LimitExceeded
from log_tier.model.identifiers import TableId
from log_tier.rows.definition import TableDefinition
from log_tier.rows.evolution import EvolutionMode, check_evolution
from log_tier.rows.schema import NumberedSchema, RowSchema

__all__ = ["DEFINITION_BYTES_MAX", "AlterTable", "SchemaChange"]

DEFINITION_BYTES_MAX: Final = 512 * 1024
"""Of a definition in a barrier, which is one record of each partition's log: Kafka takes 1 MB."""


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Begin the job that brings a table its next definition. Rejected where it has another one than `after` by now."""

    table: TableId
    after: int
    """The number of the definition that the schema was checked against."""
    schema: str
    """The next schema, by its canonical form."""
    node: str
    """Which node puts the barriers into the logs."""


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """What a caller asks for."""

    schema: RowSchema
    compatibility: EvolutionMode = "backward"
    """See `log_tier.rows.evolution`."""
    after: int = 0
    """The number of the definition that the caller knows; 0: whichever the table has."""

    def check(self, definition: TableDefinition | None, table: str) -> None:
        """Raise `InvalidSchema`, with the field and the reason, where a table of this definition cannot have the schema
        next; `InvalidRequest` for a table without rows; `LimitExceeded` where the next definition would be too large
        for a barrier.

        Rows of every schema that the table has had may be there, and nothing is rewritten: each of them is looked at.
        O(schemas).
        """
        if definition is None or definition.value != "row":
            what = "bytes" if definition is None else definition.value
            raise InvalidRequest(f"the values of table {table} are {what}: tables of rows alone have a schema")
        fields = definition.key if isinstance(definition.key, tuple) else ()
        for each in definition.schemas:
            check_evolution(each.schema, self.schema, self.compatibility, fields)
        size = len(definition.with_schema(NumberedSchema(0, self.schema)).text)
        if size > DEFINITION_BYTES_MAX:
            raise LimitExceeded(
                f"the definition of {table} would have {size} bytes with this schema, and a barrier takes "
                f"{DEFINITION_BYTES_MAX}: make a new table",
                limit=DEFINITION_BYTES_MAX,
                size=size,
            )
