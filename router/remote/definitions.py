"""Definitions of tables, and their changes, as messages: encoders and decoders."""

from __future__ import annotations

from log_tier.rows.alter_table import SchemaChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.evolution import check_mode
from log_tier.rows.schema import RowSchema
from router.proto import tables_pb2 as tables

__all__ = ["change_from", "change_message", "definition_from", "definition_message"]


def definition_message(definition: TableDefinition | None) -> tables.TableDefinition:
    """Encode what a table's keys and values are; None: bytes."""
    if definition is None:
        return tables.TableDefinition()
    fields = definition.key if isinstance(definition.key, tuple) else ()
    return tables.TableDefinition(
        number=definition.number,
        key="fields" if fields else str(definition.key),
        key_fields=[
            tables.KeyFieldDefinition(name=each.name, type=each.type, optional=each.optional) for each in fields
        ],
        value=definition.value,
        schemas=[tables.TableSchema(number=each.number, avro=each.schema.text) for each in definition.schemas],
        partition_by=definition.partition_by,
        indexes=[
            tables.TableIndexDefinition(number=each.number, name=each.name, fields=each.fields)
            for each in definition.indexes
        ],
    )


def definition_from(message: tables.TableDefinition) -> TableDefinition | None:
    """Decode a definition; None: bytes.

    Raises `InvalidSchema` for one that cannot be, also of a kind of keys or values that this process does not know.
    """
    if not message.value:
        return None
    fields = [[each.name, each.type, each.optional] for each in message.key_fields]
    document = {
        "v": 1,
        "number": message.number or 1,
        "key": fields if message.key == "fields" else message.key,
        "value": message.value,
        "schemas": [[each.number, each.avro] for each in message.schemas],
        "partition_by": message.partition_by,
    }
    if message.indexes:
        document["v"] = 2
        document["indexes"] = [[each.number, each.name, list(each.fields)] for each in message.indexes]
    return TableDefinition.from_document(document)


def change_message(name: str, change: SchemaChange) -> tables.AlterTableRequest:
    """Encode a change of a table's schema."""
    return tables.AlterTableRequest(
        name=name, avro=change.schema.text, compatibility=change.compatibility, if_definition=change.after
    )


def change_from(message: tables.AlterTableRequest) -> SchemaChange:
    """Decode it. O(its schema). Raises `InvalidSchema` for what is no schema, and for a mode that is none."""
    mode = check_mode(message.compatibility or "backward")
    return SchemaChange(RowSchema.parse(message.avro), mode, message.if_definition)
