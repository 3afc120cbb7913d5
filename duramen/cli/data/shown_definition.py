"""What a table's keys and values are, as `duramen table` shows it. Commands import it when they show one."""

from __future__ import annotations

from typing import Any

from log_tier.rows.definition import TableDefinition

__all__ = ["definition_document", "definition_line"]


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
        f"{each.name} ({', '.join(each.fields)}){' being built' if each.number in building else ''}"
        for each in definition.indexes
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
                **({"in_service": False} if each.number in definition.history.building else {}),
            }
            for each in definition.indexes
        ],
    }
