"""What a table's keys and values are, as `duramen table` shows it. Commands import it when they show one."""

from __future__ import annotations

from typing import Any

from duramen.cli.terminal.text import counted
from log_tier.model.kept_history import KeptHistory
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.condition_words import index_words, words_of_conditions
from log_tier.rows.text_index import TextIndex

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
    shown = [(each.number, index_words(each)) for each in definition.indexes]
    shown += [(each.number, f"{each.name} (text: {', '.join(each.fields)})") for each in definition.texts]
    indexes = ", ".join(f"{words}{' being built' if number in building else ''}" for number, words in sorted(shown))
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
        **(
            {"text_indexes": [_text_document(each, definition) for each in definition.texts]}
            if definition.texts
            else {}
        ),
    }


def _text_document(text: TextIndex, definition: TableDefinition) -> dict[str, Any]:
    building = {"in_service": False} if text.number in definition.history.building else {}
    return {"name": text.name, "fields": list(text.fields), **building}


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
