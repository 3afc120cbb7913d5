"""Tables as messages, and back. Both ends of the wire use this file."""

from __future__ import annotations

from log_tier.model.errors import UnknownFormat
from log_tier.model.identifiers import Offset, Partition, table_id_from_bytes, table_id_to_bytes
from log_tier.model.kept_history import KeptHistory
from log_tier.model.partitioner import is_partitioner
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from router.data.requests import PartitionDescription, TableDescription
from router.proto import tables_pb2 as tables

__all__ = ["description_from", "description_message", "kept_message", "ref_from", "table_message"]


def table_message(ref: TableRef) -> tables.Table:
    """Encode a table; the server calls this."""
    return tables.Table(
        id=table_id_to_bytes(ref.id),
        name=ref.name,
        partitions=ref.partitions,
        partitioner=ref.partitioner,
        over=ref.over,
        defined=ref.defined,
    )


def ref_from(message: tables.Table) -> TableRef:
    """Decode a table; the client calls this. Raises `UnknownFormat` for a partitioner that this client does not know:
    it would look keys up in the wrong partition.
    """
    partitioner = message.partitioner or "slot"
    if not is_partitioner(partitioner):
        raise UnknownFormat(
            f"table {message.name} has the partitioner {partitioner!r}, which this client does not know: update it"
        )
    return TableRef(
        table_id_from_bytes(message.id),
        message.name,
        message.partitions,
        partitioner,
        message.over,
        message.defined,
    )


def description_message(description: TableDescription) -> tables.TableDescription:
    """Encode a table's description; the server calls this."""
    return tables.TableDescription(
        table=table_message(description.table),
        partitions=[tables.PartitionDescription(**partition._asdict()) for partition in description.partitions],
        retention_ms=description.retention.ms,
        retention_bytes=description.retention.bytes,
        keeps=kept_message(description.keeps),
        made_ms=description.made_ms,
    )


def description_from(message: tables.TableDescription) -> TableDescription:
    """Decode a table's description; the client calls this."""
    return TableDescription(
        ref_from(message.table),
        [
            PartitionDescription(
                Partition(partition.partition),
                Offset(partition.earliest),
                Offset(partition.latest),
                Offset(partition.applied),
                partition.keys,
                partition.index_bytes,
                partition.state,
                partition.reason,
                tuple(partition.nodes),
            )
            for partition in message.partitions
        ],
        Retention(message.retention_ms, message.retention_bytes),
        KeptHistory(message.keeps.versions, message.keeps.age_ms) if message.HasField("keeps") else None,
        message.made_ms,
    )


def kept_message(keeps: KeptHistory | None) -> tables.KeptHistory | None:
    """Encode how much of the past a table keeps."""
    return None if keeps is None else tables.KeptHistory(versions=keeps.versions, age_ms=keeps.age_ms)
