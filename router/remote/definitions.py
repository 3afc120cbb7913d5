"""Definitions of tables, and their changes, as messages: encoders and decoders."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from log_tier.model.kept_history import KeptHistory
from log_tier.rows.alter_table import IndexChange, SchemaChange, TableChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.evolution import check_mode
from log_tier.rows.schema import RowSchema
from log_tier.rows.table_index import FieldCondition, TableIndex, condition_between, listed_indexes
from log_tier.rows.text_index import TEXT_KIND
from router.proto import tables_pb2 as tables
from router.remote.table_messages import kept_message

__all__ = ["change_from", "change_message", "definition_from", "definition_message"]


def definition_message(definition: TableDefinition | None) -> tables.TableDefinition:
    """Encode what a table's keys and values are; None: bytes."""
    if definition is None:
        return tables.TableDefinition()
    fields = definition.key if isinstance(definition.key, tuple) else ()
    partial = {each.number for each in definition.indexes if each.where}
    texts = {each.number for each in definition.texts}
    return tables.TableDefinition(
        number=definition.number,
        key="fields" if fields else str(definition.key),
        key_fields=[
            tables.KeyFieldDefinition(name=each.name, type=each.type, optional=each.optional) for each in fields
        ],
        value=definition.value,
        schemas=[tables.TableSchema(number=each.number, avro=each.schema.text) for each in definition.schemas],
        partition_by=definition.partition_by,
        indexes=_index_messages(definition.indexes, partial=False),
        index_changes=definition.history.changes,
        first_indexes=_index_messages(definition.history.first, partial=False),
        last_index=definition.history.last,
        building=[each for each in definition.history.building if each not in partial | texts],
        partial_indexes=_index_messages(definition.indexes, partial=True),
        first_partial_indexes=_index_messages(definition.history.first, partial=True),
        partial_building=[each for each in definition.history.building if each in partial],
        keeps=kept_message(definition.keeps),
        text_indexes=[
            tables.TableIndexDefinition(number=each.number, name=each.name, fields=each.fields)
            for each in definition.texts
        ],
        text_building=[each for each in definition.history.building if each in texts],
    )


def definition_from(message: tables.TableDefinition) -> TableDefinition | None:
    """Decode a definition; None: bytes.

    Raises `InvalidSchema` for one that cannot be, also of a kind of keys or values that this process does not know.
    """
    if not message.value:
        return None
    fields = [[each.name, each.type, each.optional] for each in message.key_fields]
    document: dict[str, Any] = {
        "v": 1,
        "number": message.number or 1,
        "key": fields if message.key == "fields" else message.key,
        "value": message.value,
        "schemas": [[each.number, each.avro] for each in message.schemas],
        "partition_by": message.partition_by,
    }
    indexes = _listed([*message.indexes, *message.partial_indexes])
    if indexes:
        document["v"] = 2
        document["indexes"] = indexes
    if message.index_changes:
        document["v"] = 3
        document["indexes"] = indexes
        document["index_history"] = [
            message.index_changes,
            _listed([*message.first_indexes, *message.first_partial_indexes]),
            message.last_index,
            sorted([*message.building, *message.partial_building, *message.text_building]),
        ]
    if message.partial_indexes or message.first_partial_indexes:
        document["v"] = 4
    if message.HasField("keeps"):
        document["v"] = 5
        document["keeps"] = KeptHistory(message.keeps.versions, message.keeps.age_ms).listed()
    known = (message.indexes, message.partial_indexes, message.first_indexes, message.first_partial_indexes)
    if any(each.unique for each in itertools.chain(*known)):
        document["v"] = 6
    if message.text_indexes:
        document["v"] = 7
        document["texts"] = [[each.number, each.name, list(each.fields)] for each in message.text_indexes]
    return TableDefinition.from_document(document)


def _index_messages(indexes: Sequence[TableIndex], *, partial: bool) -> list[tables.TableIndexDefinition]:
    """`partial`: of those that have some rows only; else of the others."""
    return [
        tables.TableIndexDefinition(
            number=each.number,
            name=each.name,
            fields=each.fields,
            where=_where_messages(each.where),
            unique=each.unique,
        )
        for each in indexes
        if bool(each.where) == partial
    ]


def _listed(messages: Iterable[tables.TableIndexDefinition]) -> list[list[Any]]:
    return listed_indexes(
        [
            TableIndex(each.number, each.name, tuple(each.fields), _where_from(each.where), each.unique)
            for each in sorted(messages, key=lambda each: each.number)
        ]
    )


def _where_messages(where: Sequence[FieldCondition]) -> list[tables.IndexCondition]:
    return [tables.IndexCondition(field=each.path, start=each.start, end=each.end) for each in where]


def _where_from(messages: Iterable[tables.IndexCondition]) -> tuple[FieldCondition, ...]:
    return tuple(condition_between(each.field, each.start, each.end) for each in messages)


def change_message(name: str, change: TableChange) -> tables.AlterTableRequest:
    """Encode a change of a table's schema or indexes."""
    if isinstance(change, IndexChange):
        where = _where_messages(change.where)
        index = tables.IndexChange(name=change.name, fields=change.fields, where=where, unique=change.unique)
        if change.kind == TEXT_KIND:
            return tables.AlterTableRequest(name=name, text_index=index)
        return tables.AlterTableRequest(name=name, index=index)
    return tables.AlterTableRequest(
        name=name, avro=change.schema.text, compatibility=change.compatibility, if_definition=change.after
    )


def change_from(message: tables.AlterTableRequest) -> TableChange:
    """Decode it. O(its schema). Raises `InvalidSchema` for what is no schema, and for a mode that is none."""
    if message.HasField("text_index"):
        text = message.text_index
        return IndexChange(text.name, tuple(text.fields), _where_from(text.where), text.unique, TEXT_KIND)
    if message.HasField("index"):
        index = message.index
        return IndexChange(index.name, tuple(index.fields), _where_from(index.where), index.unique)
    mode = check_mode(message.compatibility or "backward")
    return SchemaChange(RowSchema.parse(message.avro), mode, message.if_definition)
