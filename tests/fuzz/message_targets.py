"""Messages of gRPC, from bytes to what the services and clients work with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from fuzz.fields import changed_fields, grown_fields
from fuzz.target import Target
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from log_tier.model.kept_history import KeptHistory
from log_tier.model.record import check_key
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from log_tier.rows.alter_table import IndexChange, SchemaChange, TableChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import IndexHistory, TableIndex, condition_between
from log_tier.rows.text_index import TextIndex
from log_tier.rpc.problems import problem_of
from router.admin.messages import change_from
from router.data.past.past_requests import check_versions, in_past, past_part
from router.data.requests import (
    Highlight,
    OutcomesPart,
    PartitionDescription,
    PastRead,
    PastScan,
    ReadPart,
    ReadResult,
    ScanRequest,
    ScanResult,
    TableDescription,
    TextSearch,
    WatchEvent,
    WritePart,
)
from router.data.scan import check_scan
from router.endpoints.grpc.kv.freshness import check_token, freshness_of, parse_token
from router.endpoints.grpc.kv.past import past_of
from router.endpoints.grpc.kv.records import delete_record, group_of, put_record, update_record
from router.endpoints.grpc.kv.scans import range_of
from router.proto import admin_pb2, keyvalue_pb2, kv_pb2, tables_pb2
from router.remote import definitions, messages, table_messages
from serving_tier.proto import node_pb2
from serving_tier.service.tallies import subscriptions_from, tally_from

__all__ = ["message_targets"]

_TABLE: Final = TableId("AAECAwQFBgcICQoLDA0ODw")
_PLACE: Final = PartitionId(_TABLE, Partition(3))
_REFUSALS: Final = (DuramenError, DecodeError)
_TABLE_REF: Final = TableRef(_TABLE, "flights", 8)
_TOKEN: Final = Token({_TABLE: {Partition(3): Offset(7)}})

_SCHEMA: Final = RowSchema.parse(
    {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "carrier", "type": "string"},
            {"name": "flight", "type": "int"},
            {"name": "delay", "type": ["null", "double"], "default": None},
        ],
    }
)

Convert = Callable[[Any], object]


def _read(kind: type[Message], convert: Convert, data: bytes) -> None:
    convert(kind.FromString(data))


def _samples(*sent: Message) -> list[bytes]:
    return [message.SerializeToString() for message in sent]


def _asked(request: Any) -> None:
    """A read by the service for other languages."""
    token = parse_token(request.after)
    if past_of(_TABLE_REF, request) is None:
        freshness_of(_TABLE_REF, token, request)


def _scan_asked(request: Any) -> None:
    """A scan by that service."""
    start, end = range_of(request)
    past = past_of(_TABLE_REF, request)
    if past is not None:
        in_past(past, ScanRequest(_TABLE, start, end))


def _history_asked(request: Any) -> None:
    """The versions of a key by that service."""
    check_versions(request.limit or 1)
    past = past_of(_TABLE_REF, request)
    if past is not None:
        past_part(past, _TABLE_REF.partition_of(check_key(request.key)), (request.key,), request.limit)
    check_token(_TABLE_REF, parse_token(request.after))


def _scanned(request: keyvalue_pb2.ScanRequest) -> None:
    check_scan(messages.scan_from(request))


def _kv() -> Iterator[tuple[type[Message], Convert, Sequence[Message]]]:
    key, number = b"{a}key", kv_pb2.KVNumber(integer=-3)
    puts = [
        kv_pb2.KVPutRequest(table="flights", key=key, value=b"value", if_version=7, ttl_ms=900),
        kv_pb2.KVPutRequest(table="flights", key=key, if_absent=True, keep_ttl=True),
    ]
    writes = [
        kv_pb2.KVWrite(key=key, put=b"value", if_absent=True),
        kv_pb2.KVWrite(key=key, add=number, ttl_ms=5),
        kv_pb2.KVWrite(key=key, delete=True, if_version=4),
        kv_pb2.KVWrite(key=key, append=b"more"),
    ]
    yield kv_pb2.KVPutRequest, put_record, puts
    yield (
        kv_pb2.KVDeleteRequest,
        lambda request: delete_record(request, request.key),
        [kv_pb2.KVDeleteRequest(table="f", key=key, if_present=True)],
    )
    yield kv_pb2.KVUpdateRequest, update_record, [kv_pb2.KVUpdateRequest(table="f", key=key, multiply=number)]
    yield kv_pb2.KVWriteRequest, lambda request: group_of(request.writes), [kv_pb2.KVWriteRequest(writes=writes)]
    bounded = kv_pb2.KVGetRequest(table="f", key=key, level=kv_pb2.KV_LEVEL_BOUNDED, max_lag_ms=5)
    after = kv_pb2.KVGetRequest(table="f", key=key, after=str(_TOKEN))
    past = kv_pb2.KVGetRequest(table="f", key=key, at_token=str(_TOKEN))
    yield kv_pb2.KVGetRequest, _asked, [bounded, after, past, kv_pb2.KVGetRequest(key=key, at_time_ms=-7)]
    scans = [
        kv_pb2.KVScanRequest(prefix=b"k", at_token=str(_TOKEN)),
        kv_pb2.KVScanRequest(start=b"k", end=b"l", at_time_ms=7),
    ]
    yield kv_pb2.KVScanRequest, _scan_asked, scans
    histories = [
        kv_pb2.KVHistoryRequest(table="f", key=key, limit=7, at_token=str(_TOKEN)),
        kv_pb2.KVHistoryRequest(table="f", key=key, after=str(_TOKEN)),
    ]
    yield kv_pb2.KVHistoryRequest, _history_asked, histories


def _requests() -> Iterator[tuple[type[Message], Convert, Sequence[Message]]]:
    reads = [
        ReadPart(_PLACE, [b"one", b"two"], Offset(7), True, 5),
        ReadPart(_PLACE, [b"one"], Offset(7), past=PastRead(Offset(3), 0, 2)),
    ]
    scan = ScanRequest(_TABLE, b"a", b"z", after={Partition(1): Offset(2)}, table_versions={Partition(1): 2})
    table = table_messages.table_message(_TABLE_REF)
    yield keyvalue_pb2.ReadRequest, messages.read_parts_from, [messages.read_request(reads, patience=0.1)]
    write = messages.write_request([WritePart(_PLACE, b"batch", True)])
    yield keyvalue_pb2.WriteRequest, messages.write_parts_from, [write]
    outcomes = messages.outcomes_request([OutcomesPart(_PLACE, Offset(1), 5, Offset(3))])
    yield keyvalue_pb2.OutcomesRequest, messages.outcomes_parts_from, [outcomes]
    yield (
        keyvalue_pb2.ScanRequest,
        _scanned,
        [
            messages.scan_request(scan),
            messages.scan_request(replace(scan, past=PastScan(7, Offset(3)))),
            messages.scan_request(ScanRequest(_TABLE, search=TextSearch("words", "fog -snow", 3))),
        ],
    )
    starts = [admin_pb2.AdminStartRequest(dry_run=True), _start("move"), _start("swap")]
    yield admin_pb2.AdminStartRequest, change_from, starts
    yield tables_pb2.Table, table_messages.ref_from, [table]


def _start(member: str) -> admin_pb2.AdminStartRequest:
    request = admin_pb2.AdminStartRequest()
    getattr(request, member).SetInParent()
    return request


def _replies() -> Iterator[tuple[type[Message], Convert, Sequence[Message]]]:
    """What a client reads from a server."""
    found = ReadResult(Offset(7), [b"value", None], [7, NOTHING], [0, 5])
    past = ReadResult(Offset(7), [b"value", None], [7, 4], [0, 5], [9, 8])
    refused = DuramenError("no")
    read = messages.read_reply([found, past, refused])
    page = ScanResult([b"a"], [b"1"], [4], True, {Partition(0): Offset(9)}, {Partition(0): 2})
    compared = page._replace(reached=b"b", before=(b"0",), before_versions=(2,))
    yield keyvalue_pb2.ReadReply, messages.read_results_from, [read]
    outcomes = [
        keyvalue_pb2.WriteOutcome(record=1, rejected=problem_of(refused), original=-1),
        keyvalue_pb2.WriteOutcome(record=2, result=b"5", original=3),
    ]
    written = keyvalue_pb2.WriteReply(
        results=[
            keyvalue_pb2.WriteResult(base_offset=7, problem=problem_of(refused)),
            keyvalue_pb2.WriteResult(base_offset=8, timestamp_ms=5, outcomes=outcomes),
        ]
    )
    yield keyvalue_pb2.WriteReply, messages.write_results_from, [written]
    searched = page._replace(scores=(1.5,), highlights=((Highlight("remark", "fog", ((0, 3),)),),))
    pages = [messages.scan_reply(each) for each in (page, compared, searched)]
    yield keyvalue_pb2.ScanReply, messages.scan_result_from, pages


def _definitions() -> Iterator[tuple[type[Message], Convert, Sequence[Message]]]:
    """Of tables: what a client reads, and changes."""
    definition = TableDefinition(
        2,
        (KeyField("carrier", "str"), KeyField("flight", "int")),
        "row",
        (NumberedSchema(1, _SCHEMA),),
        indexes=(TableIndex(1, "late", ("delay",), (condition_between("flight", b"\x15\x01", b"\x15\x09"),)),),
        history=IndexHistory(1, (), 2, (1, 2)),
        keeps=KeptHistory(3, 0),
        texts=(TextIndex(2, "words", ("carrier",)),),
    )
    yield (
        tables_pb2.TableDefinition,
        definitions.definition_from,
        [definitions.definition_message(definition), definitions.definition_message(TableDefinition(key="str"))],
    )
    changes: list[TableChange] = [
        SchemaChange(_SCHEMA, "backward", 1),
        IndexChange("late", ("delay",), definition.indexes[0].where),
        IndexChange("words", ("carrier",), kind="text"),
    ]
    sent = [definitions.change_message("flights", change) for change in changes]
    yield tables_pb2.AlterTableRequest, definitions.change_from, sent
    partition = PartitionDescription(Partition(3), Offset(0), Offset(9), Offset(9), 5, 4096, "ready", "", ("n1",))
    description = TableDescription(_TABLE_REF, [partition], keeps=KeptHistory(0, 5), made_ms=7)
    yield (
        tables_pb2.TableDescription,
        table_messages.description_from,
        [table_messages.description_message(description)],
    )


def _streams() -> Iterator[tuple[type[Message], Convert, Sequence[Message]]]:
    """Of watches and audits."""
    event = WatchEvent(Partition(3), b"batches", [4, 5], Offset(7), {Partition(3): Offset(2)})
    yield keyvalue_pb2.WatchReply, messages.watch_event_from, [messages.watch_reply(event)]
    period = node_pb2.Period(minute=5, minutes=1, first=0, last=7, offsets=8, checksum=9)
    tally = node_pb2.TallyReply(
        since=0,
        applied=7,
        periods=[period],
        subscriptions=[node_pb2.Subscription(name="s", since=0, applied=7, periods=[period])],
    )
    yield node_pb2.TallyReply, lambda reply: (tally_from(reply), subscriptions_from(reply)), [tally]


def message_targets() -> Iterator[Target]:
    """Two for each message that is turned into something else: its bytes changed, and its fields."""
    for groups in (_kv, _requests, _replies, _definitions, _streams):
        for kind, convert, sent in groups():
            name = f"message {kind.DESCRIPTOR.name}"
            samples, read = partial(_samples, *sent), partial(_read, kind, convert)
            yield Target(name, samples, read, _REFUSALS)
            change, grow = partial(changed_fields, kind), partial(grown_fields, kind)
            yield Target(f"{name}, by fields", samples, read, _REFUSALS, change, grow=grow)
