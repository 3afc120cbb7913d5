"""What a table's keys and values are, as `duramen table` shows it. Commands import it when they show one."""

from __future__ import annotations

from typing import Any

from duramen.cli.terminal.text import counted
from log_tier.model.kept_history import KeptHistory
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.condition_words import index_words, words_of_conditions

__all__ = ["definition_document", "definition_line", "kept_words", "made_words"]


def definition_line(definition: TableDefinition) -> str:
    """For people: `rows of Flight (schema 1, number 7), key (carrier, flight), partition by carrier`"""
    fields = definition.key if isinstance(definition.key, tuple) else ()
    names = [each.name for each in fields]
    key = f"({', '.join(names)})" if fields else str(definition.key)
    by = f", partition by {', '.join(names[: definition.partition_by])}" if definition.partition_by else ""
    if not definition.schemas:
        return f"values {definition.value}, key {key}{by}"
    newest = definition.schemas[-1]
    place = f"schema {len(definition.schemas)}, number {newest.number}"
    building = definition.history.building
    indexes = ", ".join(
        f"{index_words(each)}{' being built' if each.number in building else ''}" for each in definition.indexes
    )
    return f"rows of {newest.schema.name} ({place}), key {key}{by}{f', indexes {indexes}' if indexes else ''}"


def definition_document(definition: TableDefinition) -> dict[str, Any]:
    """For programs. Schemas by number and name: `duramen table schema` prints them."""
    fields = definition.key if isinstance(definition.key, tuple) else ()
    key = [{"name": each.name, "type": each.type, "optional": each.optional} for each in fields]
    return {
        "number": definition.number,
        "key": key if fields else definition.key,
        "value": definition.value,
        "partition_by": [each.name for each in fields[: definition.partition_by or len(fields)]],
        "schemas": [{"number": each.number, "name": each.schema.name} for each in definition.schemas],
        "indexes": [
            {
                "name": each.name,
                "fields": list(each.fields),
                **({"where": words_of_conditions(each.where)} if each.where else {}),
                **({"unique": True} if each.unique else {}),
                **({"in_service": False} if each.number in definition.history.building else {}),
            }
            for each in definition.indexes
        ],
    }


def kept_words(history: KeptHistory | None) -> str:
    """What a table keeps of the past of its keys, behind what its log keeps; empty: nothing."""
    if history is None:
        return ""
    if history.versions:
        return f"; of each key it keeps the newest {counted(history.versions, 'change')}"
    return f"; it keeps what keys had {f'for {history}' if history.age_ms else 'at all times'}"


def made_words(time_ms: int) -> str:
    """When a table was made, behind what it keeps, in this machine's time zone; empty: that is not known."""
    from duramen.cli.admin.figures import local_time

    return f"; made {local_time(time_ms)}" if time_ms else ""
