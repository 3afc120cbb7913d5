"""Requests and replies as messages, and back. Both ends of the wire use this file.

A message of a read or a write is filled field by field: one that is made by its constructor and handed to another one
is copied, which takes twice as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from log_tier.model.errors import DuramenError, Rejected, UnknownFormat
from log_tier.model.identifiers import (
    NOTHING,
    Offset,
    Partition,
    partition_id_from_bytes,
    table_id_from_bytes,
    table_id_to_bytes,
)
from log_tier.rpc.problems import error_of, problem_of
from router.data.requests import (
    PAGE_BYTES_MAX,
    OutcomesPart,
    PastRead,
    PastScan,
    ReadPart,
    ReadResult,
    ScanRequest,
    ScanResult,
    WatchEvent,
    WriteOutcome,
    WritePart,
    WriteResult,
    read_part_of,
    read_result_of,
    write_part_of,
    write_result_of,
)
from router.proto import keyvalue_pb2 as kv
from router.remote.partition_lists import check_length, offsets_from, partitions_from

__all__ = [
    "outcomes_parts_from",
    "outcomes_request",
    "read_parts_from",
    "read_reply",
    "read_request",
    "read_results_from",
    "scan_from",
    "scan_reply",
    "scan_request",
    "scan_result_from",
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
    request = kv.ReadRequest()
    request.patience_ms = int(patience * 1000)
    add = request.parts.add
    for (table, partition), keys, after, strong, lag_max_ms, past in parts:
        message = add()
        message.table_id = table_id_to_bytes(table)
        message.partition = partition
        message.after = after
        message.strong = strong
        message.keys.extend(keys)
        message.lag_max_ms = lag_max_ms
        if past is not None:
            offset, time_ms, message.past_versions = past
            if time_ms:
                message.at_time_ms = time_ms
            elif offset is not None:
                message.at_offset = offset
    return request


def read_parts_from(request: kv.ReadRequest) -> list[ReadPart]:
    """Decode the parts of a read; the server calls this."""
    return [
        read_part_of(
            (
                partition_id_from_bytes(part.table_id, part.partition),
                part.keys[:],
                part.after,
                part.strong,
                part.lag_max_ms,
                _past_from(part),
            )
        )
        for part in request.parts
    ]


def _past_from(part: kv.ReadPart) -> PastRead | None:
    as_of = part.WhichOneof("as_of")
    if as_of is None and not part.past_versions:
        return None
    return PastRead(Offset(part.at_offset) if as_of == "at_offset" else None, part.at_time_ms, part.past_versions)


def read_reply(results: Sequence[ReadResult | DuramenError]) -> kv.ReadReply:
    """Encode the reply to a read; the server calls this. An absent key travels as an empty value with version -1."""
    reply = kv.ReadReply()
    add = reply.results.add
    for result in results:
        message = add()
        if isinstance(result, DuramenError):
            message.problem.CopyFrom(problem_of(result))
            continue
        message.applied, values, versions, expiries, times = result
        message.values.extend([value or b"" for value in values])
        message.versions.extend(versions)
        if expiries is not None:
            message.expiries.extend(expiries)
        if times is not None:
            message.times.extend(times)
            message.deleted.extend([at for at, value in enumerate(values) if value is None])
    return reply


def read_results_from(reply: kv.ReadReply) -> list[ReadResult | DuramenError]:
    """Decode the reply to a read; the client calls this. Raises `UnknownFormat` for columns of different lengths."""
    results: list[ReadResult | DuramenError] = []
    for result in reply.results:
        if result.HasField("problem"):
            results.append(error_of(result.problem))
            continue
        # Slices are the quickest way to lists.
        versions, expiries, times = result.versions[:], result.expiries[:], result.times[:]
        values: Sequence[bytes | None] = result.values[:]
        if len(values) != len(versions) or len(expiries) not in (0, len(versions)):
            raise UnknownFormat(
                f"a server's reply has {len(values)} values, {len(versions)} versions and {len(expiries)} "
                "expiries: it is damaged, or of another version; update this process and the server"
            )
        if NOTHING in versions:
            values = [None if version < 0 else value for value, version in zip(values, versions, strict=True)]
        if times:
            values = _without(values, result.deleted, times)
        results.append(read_result_of((result.applied, values, versions, expiries or None, times or None)))
    return results


def _without(values: Sequence[bytes | None], deleted: Sequence[int], times: Sequence[int]) -> list[bytes | None]:
    """The versions of a key; None for those that deleted it."""
    if len(times) != len(values) or any(at >= len(values) for at in deleted):
        raise UnknownFormat(
            f"a server's reply has {len(values)} versions, {len(times)} times and deletions at {list(deleted)[:20]}: "
            "it is damaged, or of another version; update this process and the server"
        )
    gone = set(deleted)
    return [None if at in gone else value for at, value in enumerate(values)]


# --- write


def write_request(parts: Sequence[WritePart], *, patience: float = 0.0) -> kv.WriteRequest:
    """Encode a write; the client calls this. `patience` in seconds."""
    request = kv.WriteRequest()
    request.patience_ms = int(patience * 1000)
    add = request.parts.add
    for (table, partition), batch, outcomes, _ in parts:
        message = add()
        message.table_id = table_id_to_bytes(table)
        message.partition = partition
        message.batch = batch
        message.outcomes = outcomes
    return request


def write_parts_from(request: kv.WriteRequest) -> list[WritePart]:
    """Decode the parts of a write; the server calls this."""
    return [
        write_part_of((partition_id_from_bytes(part.table_id, part.partition), part.batch, part.outcomes, False))
        for part in request.parts
    ]


def write_reply(results: Sequence[WriteResult | DuramenError]) -> kv.WriteReply:
    """Encode the reply to a write, or to a question for outcomes; the server calls this."""
    reply = kv.WriteReply()
    add = reply.results.add
    for result in results:
        message = add()
        if isinstance(result, DuramenError):
            message.problem.CopyFrom(problem_of(result))
            continue
        message.base_offset, message.timestamp_ms, outcomes, message.pending = result
        if outcomes:
            message.outcomes.extend([_outcome_message(outcome) for outcome in outcomes])
    return reply


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
        else write_result_of(
            (
                result.base_offset,
                result.timestamp_ms,
                [_outcome_from(outcome) for outcome in result.outcomes] if result.outcomes else [],
                result.pending,
            )
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
    past = request.past
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
        past=None if past is None else kv.PastScan(time_ms=past.time_ms, compared=past.compared),
        search=None if request.search is None else _searches().search_message(request.search),
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
        _past_scan_from(message.past) if message.HasField("past") else None,
        _searches().search_from(message) if message.HasField("search") else None,
    )


def _searches() -> ModuleType:
    """Most programs search for nothing."""
    from router.remote import search_messages

    return search_messages


def _past_scan_from(past: kv.PastScan) -> PastScan:
    return PastScan(past.time_ms, Offset(past.compared) if past.HasField("compared") else None)


def scan_reply(result: ScanResult) -> kv.ScanReply:
    """Encode a page; the server calls this."""
    return kv.ScanReply(
        keys=result.keys,
        values=result.values,
        versions=result.versions,
        more=result.more,
        applied=[kv.PartitionOffset(partition=p, offset=o) for p, o in result.applied.items()],
        table_versions=_partition_versions(result.table_versions),
        reached=result.reached,
        before=result.before,
        before_versions=result.before_versions,
        scores=result.scores,
        highlights=_searches().highlight_messages(result) if result.highlights else (),
    )


def scan_result_from(reply: kv.ScanReply) -> ScanResult:
    """Decode a page; the client calls this. Raises `UnknownFormat` for columns of different lengths."""
    others = {len(reply.before), len(reply.before_versions)} - {len(reply.keys)}
    if others not in (set(), {0}):
        raise UnknownFormat(
            f"a server's reply has {len(reply.keys)} keys, {len(reply.before)} values from before and "
            f"{len(reply.before_versions)} versions of them: update this process and the server"
        )
    return ScanResult(
        list(reply.keys),
        list(reply.values),
        list(reply.versions),
        reply.more,
        {Partition(entry.partition): Offset(entry.offset) for entry in reply.applied},
        {Partition(entry.partition): entry.version for entry in reply.table_versions},
        reply.reached,
        tuple(reply.before),
        tuple(reply.before_versions),
        *(_searches().found_from(reply) if reply.scores or reply.highlights else ()),
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
