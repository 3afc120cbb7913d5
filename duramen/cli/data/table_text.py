"""Which text a table has, by its definition. That of rows is imported for a table that has a definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from duramen.cli.data.record_text import PlainText, RecordText

if TYPE_CHECKING:
    from log_tier.rows.definition import TableDefinition

__all__ = ["record_text", "text_of"]


class HasDefinitions(Protocol):
    """A database: what its tables are."""

    def definition(self, table: str, /, *, schema: int = 0) -> TableDefinition | None:
        """What a table's keys and values are; None: bytes."""
        ...


def text_of(database: HasDefinitions, table: str) -> RecordText:
    """How the keys and values of a table are written. One request, or two. Raises `TableNotFound`."""
    return record_text(database.definition(table), lambda schema: database.definition(table, schema=schema))


def record_text(definition: TableDefinition | None, learn: Callable[[int], TableDefinition | None]) -> RecordText:
    """How the keys and values of a table of this definition are written. `learn`: asks for the definition with the
    schema of a number, which came later.
    """
    if definition is None:
        return PlainText()
    from duramen.cli.data.defined_text import DefinedText

    return DefinedText(definition, learn)
