"""What a table's keys and values are, as `duramen table` takes and shows it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from log_tier.model.errors import InvalidRequest
from log_tier.rows.definition import TableDefinition

__all__ = ["definition_document", "definition_line", "indexes_of", "names_of", "schema_text"]


def schema_text(file: Path) -> str:
    """What `--schema` names: a file, or - for the standard input. Raises `InvalidRequest`, `OSError`."""
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the schema in {file} is no UTF-8: {error.reason} at {error.start}") from None


def names_of(text: str) -> tuple[str, ...]:
    """The names in `carrier,flight`."""
    return tuple(name.strip() for name in text.split(","))


def indexes_of(words: Sequence[str]) -> dict[str, tuple[str, ...]] | None:
    """The indexes in `by_tail=tailnum,dep_delay`. Raises `InvalidRequest`."""
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        name, sign, fields = word.partition("=")
        if not sign or name in found:
            why = "two indexes have this name" if sign else "write NAME=FIELDS, as by_tail=tailnum,dep_delay"
            raise InvalidRequest(f"--index {ascii(word)[:80]}: {why}")
        found[name] = names_of(fields)
    return found or None


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
