"""A change of a table's schema or indexes: what is asked for, and the catalog's command that begins it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from log_tier.model.errors import InvalidRequest, InvalidSchema, LimitExceeded
from log_tier.model.identifiers import TableId
from log_tier.rows.definition import TableDefinition
from log_tier.rows.evolution import EvolutionMode, check_evolution
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import FieldCondition, TableIndex
from log_tier.rows.text_index import TEXT_KIND, TextIndex

__all__ = [
    "ALTER_COMMANDS",
    "DEFINITION_BYTES_MAX",
    "AlterCommand",
    "AlterIndexes",
    "AlterTable",
    "IndexChange",
    "SchemaChange",
    "TableChange",
]

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
class AlterIndexes:
    """Begin the job that gives a table one index more, or one less. Rejected where it has another definition than
    `after` by now.
    """

    table: TableId
    after: int
    """The number of the definition that the change was checked against."""
    name: str
    """Of the index."""
    fields: str
    """Of a new index, with commas between them; none: the index of that name goes."""
    node: str
    """Which node puts the barriers into the logs."""
    where: str = ""
    """Which rows a new index has (`log_tier.rows.table_index.pack_where`); empty: all."""
    kind: str = ""
    """Of a new index: `text`; empty: an ordered one."""


AlterCommand = AlterTable | AlterIndexes

ALTER_COMMANDS: Final[Mapping[str, type[AlterCommand]]] = {"alter-table": AlterTable, "alter-indexes": AlterIndexes}
"""By their name on the log."""


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
        _check_size(definition.with_schema(NumberedSchema(0, self.schema)), f"{table} with this schema")


@dataclass(frozen=True, slots=True)
class IndexChange:
    """What a caller asks for: an index more, or one less."""

    name: str
    fields: tuple[str, ...] = ()
    """Of a new index; none: the index of that name goes."""
    where: tuple[FieldCondition, ...] = ()
    """Which rows a new index has; none: all."""
    unique: bool = False
    """No two rows may have the same values of the fields."""
    kind: str = ""
    """Of a new index: `text`; empty: an ordered one."""

    def found_in(self, definition: TableDefinition) -> TableIndex | TextIndex | None:
        """The index of that name. Raises `InvalidSchema` where it has other fields, or other rows, than a new one
        should have, or is of another kind.
        """
        every: tuple[TableIndex | TextIndex, ...] = (*definition.indexes, *definition.texts)
        found = next((each for each in every if each.name == self.name), None)
        if found is not None and self.fields and isinstance(found, TextIndex) != (self.kind == TEXT_KIND):
            why = "the table has one of that name already, of another kind: drop it, or choose another"
            raise InvalidSchema(f"the index {self.name}: {why}", field=self.name, reason=why)
        if found is not None and self.fields and found.fields != self.fields:
            why = f"the table has one of that name already, by {', '.join(found.fields)}: drop it, or choose another"
            raise InvalidSchema(f"the index {self.name}: {why}", field=self.name, reason=why)
        if isinstance(found, TableIndex) and self.fields and found.where != self.where:
            why = "the table has one of that name already, of other rows: drop it, or choose another"
            raise InvalidSchema(f"the index {self.name}: {why}", field=self.name, reason=why)
        if isinstance(found, TableIndex) and self.fields and found.unique != self.unique:
            why = f"the table has one of that name already, which is {'' if found.unique else 'not '}unique"
            raise InvalidSchema(f"the index {self.name}: {why}", field=self.name, reason=why)
        return found

    def next_of(self, definition: TableDefinition | None, table: str) -> TableDefinition:
        """The next definition of a table of this definition.

        Raises `InvalidSchema`, with the index and the reason, for an index that its rows cannot have; `InvalidRequest`
        for a table without rows, and where there is no index to drop; `LimitExceeded` where the definition would be too
        large for a barrier. O(schemas).
        """
        if definition is None or definition.value != "row":
            what = "bytes" if definition is None else definition.value
            raise InvalidRequest(f"the values of table {table} are {what}: tables of rows alone have indexes")
        if not self.fields:
            found = self.found_in(definition) or definition.index_named(self.name)
            return definition.without_index(found.number)
        if self.kind not in ("", TEXT_KIND):
            raise InvalidRequest(f"an index is ordered or of kind {TEXT_KIND}, not {ascii(self.kind)[:40]}")
        if self.kind and (self.where or self.unique):
            raise InvalidRequest(
                "a text index has all rows, and words of many: conditions and unique are for ordered ones"
            )
        if self.found_in(definition) is None and self.unique:
            why = (
                "a unique index comes with its table, whose log decides from its first record on: make the table with "
                "it (create_table(…, indexes=…)), and load the rows there"
            )
            raise InvalidSchema(f"the index {self.name}: {why}", field=self.name, reason=why)
        later = (
            definition.with_text(self.name, self.fields)
            if self.kind
            else definition.with_index(self.name, self.fields, self.where)
        )
        _check_size(later, f"{table} with this index")
        return later


TableChange = SchemaChange | IndexChange


def _check_size(definition: TableDefinition, what: str) -> None:
    size = len(definition.text)
    if size > DEFINITION_BYTES_MAX:
        raise LimitExceeded(
            f"the definition of {what} would have {size} bytes, and a barrier takes {DEFINITION_BYTES_MAX}: make a new "
            "table",
            limit=DEFINITION_BYTES_MAX,
            size=size,
        )
