"""May a schema follow those of a subject? As `Compatibility` of the Schema Registry answers it, and as a change of the
table's schema is decided. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duramen.server.registry.registry_answer import SCHEMA_INVALID, RegistryAnswer, refused
from duramen.server.registry.subjects import Subject
from log_tier.model.errors import InvalidSchema
from log_tier.rows.evolution import check_evolution
from log_tier.rows.json_rows.strict_json import strict_json
from log_tier.rows.schema import NumberedSchema, RowSchema

__all__ = ["checked_schema"]

_TYPE = "AVRO"


def checked_schema(
    subject: Subject, against: Sequence[NumberedSchema], body: bytes, *, verbose: bool
) -> RegistryAnswer:
    """Whether the schema in a request's body may follow each of `against`, which are the subject's: who has it reads
    their rows, and the table's key stays. `verbose`: with the field and the reason where it may not. O(sizes of all).
    """
    schema = _schema_of(body)
    if isinstance(schema, RegistryAnswer):
        return schema
    messages, numbers = [], {each.number for each in against}
    for version, each in enumerate(subject.schemas, 1):
        if each.number in numbers:
            try:
                check_evolution(each.schema, schema, "backward", subject.key)
            except InvalidSchema as error:
                messages.append(f"version {version}: {error.message}")
    document: dict[str, Any] = {"is_compatible": not messages}
    if verbose:
        document["messages"] = messages
    return RegistryAnswer(200, document)


def _schema_of(body: bytes) -> RowSchema | RegistryAnswer:
    try:
        found = strict_json(body.decode())
    except ValueError as error:
        return refused(400, f'the body is no JSON ({error}): send {{"schema": "…"}}')
    if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
        return refused(SCHEMA_INVALID, 'the body has no schema: send {"schema": "…"}, Avro\'s JSON as a text')
    if found.get("schemaType") not in (None, _TYPE):
        return refused(SCHEMA_INVALID, "tables have schemas of AVRO alone")
    if found.get("references"):
        return refused(SCHEMA_INVALID, "a table's schema has no references: write the types out")
    try:
        return RowSchema.parse(found["schema"])
    except InvalidSchema as error:
        return refused(SCHEMA_INVALID, error.message)
