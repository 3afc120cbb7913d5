"""Requests and replies as messages, and back. Both ends of the wire use this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from log_tier.model.errors import DuramenError, Rejected, UnknownFormat
from log_tier.model.identifiers import (
    NOTHING,
    Offset,
    Partition,
    partition_id_from_bytes,
    table_id_from_bytes,
    table_id_to_bytes,
)
from log_tier.model.partitioner import is_partitioner
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.rpc.problems import error_of, problem_of
from router.data.requests import (
    PAGE_BYTES_MAX,
    OutcomesPart,
    PartitionDescription,
    ReadPart,
    ReadResult,
    ScanRequest,
    ScanResult,
    TableDescription,
    WatchEvent,
    WriteOutcome,
    WritePart,
    WriteResult,
)
from router.proto import keyvalue_pb2 as kv
from router.proto import tables_pb2 as tables
from router.remote.partition_lists import check_length, offsets_from, partitions_from

__all__ = [
    "description_from",
    "description_message",
    "outcomes_parts_from",
    "outcomes_request",
    "read_parts_from",
    "read_reply",
    "read_request",
    "read_results_from",
    "ref_from",
    "scan_from",
    "scan_reply",
    "scan_request",
    "scan_result_from",
    "table_message",
    "watch_event_from",
    "watch_reply",
    "write_parts_from",
    "write_reply",
    "write_request",
    "write_results_from",
]

# --- read


def read_request(parts: Sequence[ReadPart], *, patience: float) -> kv.ReadRequest:
    """Encode a read; the client calls this. `patience` in seconds."""
    return kv.ReadRequest(
        patience_ms=int(patience * 1000),
        parts=[
            kv.ReadPart(
                table_id=table_id_to_bytes(part.partition.table),
                partition=part.partition.partition,
                after=part.after,
                strong=part.strong,
                keys=part.keys,
                lag_max_ms=part.lag_max_ms,
            )
            for part in parts
        ],
    )


def read_parts_from(request: kv.ReadRequest) -> list[ReadPart]:
    """Decode the parts of a read; the server calls this."""
    return [
        ReadPart(
            partition_id_from_bytes(part.table_id, part.partition),
            list(part.keys),
            Offset(part.after),
            part.strong,
            part.lag_max_ms,
        )
        for part in request.parts
    ]


def read_reply(results: Sequence[ReadResult | DuramenError]) -> kv.ReadReply:
    """Encode the reply to a read; the server calls this. An absent key travels as an empty value with version -1."""
    return kv.ReadReply(
        results=[
            kv.ReadResult(problem=problem_of(result))
            if isinstance(result, DuramenError)
            else kv.ReadResult(
                applied=result.applied,
                values=[value or b"" for value in result.values],
                versions=result.versions,
                expiries=result.expiries,
            )
            for result in results
        ]
    )


def read_results_from(reply: kv.ReadReply) -> list[ReadResult | DuramenError]:
    """Decode the reply to a read; the client calls this. Raises `UnknownFormat` for columns of different lengths."""
    results: list[ReadResult | DuramenError] = []
    for result in reply.results:
        if result.HasField("problem"):
            results.append(error_of(result.problem))
            continue
        versions = list(result.versions)
        values: list[bytes | None] = list(result.values)
        if len(values) != len(versions) or len(result.expiries) not in (0, len(versions)):
            raise UnknownFormat(
                f"a server's reply has {len(values)} values, {len(versions)} versions and {len(result.expiries)} "
                "expiries: it is damaged, or of another version; update this process and the server"
            )
        if NOTHING in versions:
            values = [None if version < 0 else value for value, version in zip(values, versions, strict=True)]
        results.append(ReadResult(Offset(result.applied), values, versions, list(result.expiries) or None))
    return results


# --- write


def write_request(parts: Sequence[WritePart], *, patience: float = 0.0) -> kv.WriteRequest:
    """Encode a write; the client calls this. `patience` in seconds."""
    return kv.WriteRequest(
        patience_ms=int(patience * 1000),
        parts=[
            kv.WritePart(
                table_id=table_id_to_bytes(part.partition.table),
                partition=part.partition.partition,
                batch=part.batch,
                outcomes=part.outcomes,
            )
            for part in parts
        ],
    )


def write_parts_from(request: kv.WriteRequest) -> list[WritePart]:
    """Decode the parts of a write; the server calls this."""
    return [
        WritePart(partition_id_from_bytes(part.table_id, part.partition), part.batch, part.outcomes)
        for part in request.parts
    ]


def write_reply(results: Sequence[WriteResult | DuramenError]) -> kv.WriteReply:
    """Encode the reply to a write, or to a question for outcomes; the server calls this."""
    return kv.WriteReply(
        results=[
            kv.WriteResult(problem=problem_of(result))
            if isinstance(result, DuramenError)
            else kv.WriteResult(
                base_offset=result.base_offset,
                timestamp_ms=result.timestamp_ms,
                outcomes=[_outcome_message(outcome) for outcome in result.outcomes],
                pending=result.pending,
            )
            for result in results
        ]
    )


def _outcome_message(outcome: WriteOutcome) -> kv.WriteOutcome:
    return kv.WriteOutcome(
        record=outcome.record,
        rejected=None if outcome.rejected is None else problem_of(outcome.rejected),
        result=outcome.result or b"",
        original=outcome.original,
    )


def write_results_from(reply: kv.WriteReply) -> list[WriteResult | DuramenError]:
    """Decode the reply to a write, or to a question for outcomes; the client calls this."""
    return [
        error_of(result.problem)
        if result.HasField("problem")
        else WriteResult(
            Offset(result.base_offset),
            result.timestamp_ms,
            [_outcome_from(outcome) for outcome in result.outcomes],
            result.pending,
        )
        for result in reply.results
    ]


def _outcome_from(message: kv.WriteOutcome) -> WriteOutcome:
    rejected = None
    if message.HasField("rejected"):
        error = error_of(message.rejected)
        rejected = error if isinstance(error, Rejected) else Rejected(error.message, **error.fields)
    return WriteOutcome(message.record, rejected, message.result or None, Offset(message.original))


def outcomes_request(parts: Sequence[OutcomesPart]) -> kv.OutcomesRequest:
    """Encode a question for outcomes; the client calls this."""
    return kv.OutcomesRequest(
        parts=[
            kv.OutcomesPart(
                table_id=table_id_to_bytes(part.partition.table),
                partition=part.partition.partition,
                base_offset=part.base_offset,
                timestamp_ms=part.timestamp_ms,
                span=part.after - part.base_offset + 1,
            )
            for part in parts
        ]
    )


def outcomes_parts_from(request: kv.OutcomesRequest) -> list[OutcomesPart]:
    """Decode a question for outcomes; the server calls this."""
    return [
        OutcomesPart(
            partition_id_from_bytes(part.table_id, part.partition),
            Offset(part.base_offset),
            part.timestamp_ms,
            Offset(part.base_offset + part.span - 1),
        )
        for part in request.parts
    ]


# --- scan


def scan_request(request: ScanRequest) -> kv.ScanRequest:
    """Encode the request for a page; the client calls this."""
    return kv.ScanRequest(
        table_id=table_id_to_bytes(request.table_id),
        start=request.start,
        end=request.end or b"",
        reverse=request.reverse,
        limit=request.limit,
        after=[kv.PartitionOffset(partition=p, offset=o) for p, o in request.after.items()],
        strong=request.strong,
        partitions=request.partitions,
        lag_max_ms=request.lag_max_ms,
        table_versions=_partition_versions(request.table_versions),
        bytes_max=request.bytes_max,
        index=request.index,
        index_number=request.index_number,
    )


def _partition_versions(versions: Mapping[Partition, int]) -> list[kv.PartitionVersion]:
    return [kv.PartitionVersion(partition=partition, version=version) for partition, version in versions.items()]


def scan_from(message: kv.ScanRequest) -> ScanRequest:
    """Decode the request for a page; the server calls this. Raises `LimitExceeded`."""
    check_length(message.table_versions)
    return ScanRequest(
        table_id_from_bytes(message.table_id),
        message.start,
        message.end or None,
        message.reverse,
        message.limit,
        offsets_from(message.after),
        message.strong,
        partitions_from(message.partitions),
        message.lag_max_ms,
        {Partition(entry.partition): entry.version for entry in message.table_versions},
        min(message.bytes_max or PAGE_BYTES_MAX, PAGE_BYTES_MAX),
        message.index,
        message.index_number,
    )


def scan_reply(result: ScanResult) -> kv.ScanReply:
    """Encode a page; the server calls this."""
    return kv.ScanReply(
        keys=result.keys,
        values=result.values,
        versions=result.versions,
        more=result.more,
        applied=[kv.PartitionOffset(partition=p, offset=o) for p, o in result.applied.items()],
        table_versions=_partition_versions(result.table_versions),
    )


def scan_result_from(reply: kv.ScanReply) -> ScanResult:
    """Decode a page; the client calls this."""
    return ScanResult(
        list(reply.keys),
        list(reply.values),
        list(reply.versions),
        reply.more,
        {Partition(entry.partition): Offset(entry.offset) for entry in reply.applied},
        {Partition(entry.partition): entry.version for entry in reply.table_versions},
    )


# --- watch


def watch_reply(event: WatchEvent) -> kv.WatchReply:
    """Encode an event of a watch; the server calls this."""
    return kv.WatchReply(
        positions=[kv.PartitionOffset(partition=p, offset=o) for p, o in (event.positions or {}).items()],
        partition=event.partition,
        batches=event.batches,
        void_offsets=event.void_offsets,
        latest=event.latest,
    )


def watch_event_from(reply: kv.WatchReply) -> WatchEvent:
    """Decode an event of a watch; the client calls this."""
    positions = {Partition(entry.partition): Offset(entry.offset) for entry in reply.positions}
    return WatchEvent(
        Partition(reply.partition),
        reply.batches,
        list(reply.void_offsets),
        Offset(reply.latest),
        positions or None,
    )


# --- tables


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
    )
