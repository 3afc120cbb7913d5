"""Every message, there and back: what one end writes is what the other end reads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_tier.model.errors import ConditionFailed, InvalidRequest, LimitExceeded, ReplicaBehind, UnknownFormat
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId, table_id_from_bytes
from log_tier.model.table_ref import TableRef
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
    WriteOutcome,
    WritePart,
    WriteResult,
)
from router.proto import keyvalue_pb2 as kv
from router.proto import tables_pb2 as tables
from router.remote import messages
from router.remote.table_messages import description_from, description_message, ref_from, table_message

table_ids = st.binary(min_size=16, max_size=16).map(table_id_from_bytes)
partitions = st.integers(0, 1023).map(Partition)
partition_ids = st.builds(PartitionId, table_ids, partitions)
lags = st.integers(0, (1 << 32) - 1)
offsets = st.integers(-1, (1 << 63) - 1).map(Offset)
keys = st.binary(min_size=1, max_size=20)
pasts = (
    st.none()
    | st.builds(PastRead, offsets, st.just(0), lags)
    | st.builds(PastRead, st.none(), st.integers(1, 1 << 62), lags)
    | st.builds(PastRead, st.none(), st.just(0), st.integers(1, 100))
)
by_partition = st.dictionaries(partitions, offsets, max_size=4)

FLIGHTS = TableRef(TableId("AAAAAAAAAAAAAAAAAAAAAA"), "flights", 8)


@settings(deadline=None)
@given(st.lists(st.builds(ReadPart, partition_ids, st.lists(keys), offsets, st.booleans(), lags, pasts), max_size=4))
def test_read_requests(parts: list[ReadPart]) -> None:
    wire = messages.read_request(parts, patience=0.02).SerializeToString()
    request = kv.ReadRequest.FromString(wire)
    assert messages.read_parts_from(request) == parts
    assert request.patience_ms == 20


@st.composite
def read_results(draw: st.DrawFn) -> ReadResult:
    entries = draw(st.lists(st.none() | st.tuples(st.binary(max_size=9), st.integers(0, 1 << 62), st.integers(0, 9))))
    expiries = [0 if entry is None else entry[2] for entry in entries]
    return ReadResult(
        draw(offsets),
        [None if entry is None else entry[0] for entry in entries],
        [-1 if entry is None else entry[1] for entry in entries],
        expiries if any(expiries) else None,
    )


@settings(deadline=None)
@given(st.lists(read_results(), max_size=4))
def test_read_results(results: list[ReadResult]) -> None:
    """An empty value is there, an absent key is not: the wire distinguishes them."""
    wire = messages.read_reply(results).SerializeToString()
    assert messages.read_results_from(kv.ReadReply.FromString(wire)) == results


def test_versions_of_a_key() -> None:
    found = [
        ReadResult(Offset(9), [b"", None, b"1"], [8, 5, 2], [0, 0, 7], [30, 20, 0]),
        ReadResult(Offset(9), [], [], None, None),
    ]
    assert messages.read_results_from(messages.read_reply(found)) == found
    for wrong in (kv.ReadResult(times=[1]), kv.ReadResult(values=[b""], versions=[1], times=[1], deleted=[1])):
        with pytest.raises(UnknownFormat, match="deletions at"):
            messages.read_results_from(kv.ReadReply(results=[wrong]))


def test_errors_stand_in_the_place_of_their_part() -> None:
    found = ReadResult(Offset(1), [b""], [0])
    behind = ReplicaBehind("behind", partition=3, applied=1, asked=2, latest=2)
    back = messages.read_results_from(messages.read_reply([found, behind, found]))
    assert back[0::2] == [found, found]
    assert isinstance(back[1], ReplicaBehind)
    assert back[1].fields == behind.fields
    written = WriteResult(Offset(1), 5, [])
    back_written = messages.write_results_from(messages.write_reply([LimitExceeded("no"), written]))
    assert isinstance(back_written[0], LimitExceeded)
    assert back_written[1] == written


# `gathered` is known in this process only: no message carries it.
write_parts = st.builds(WritePart, partition_ids, st.binary(max_size=30), st.booleans(), gathered=st.just(False))


@settings(deadline=None)
@given(st.lists(write_parts, max_size=4))
def test_write_requests(parts: list[WritePart]) -> None:
    wire = messages.write_request(parts, patience=0.5).SerializeToString()
    request = kv.WriteRequest.FromString(wire)
    assert messages.write_parts_from(request) == parts
    assert request.patience_ms == 500


@settings(deadline=None)
@given(
    offsets,
    st.integers(0, 1 << 62),
    st.lists(st.builds(WriteOutcome, st.integers(0, 65_535), st.none(), st.none() | keys, offsets), max_size=4),
    st.booleans(),
)
def test_write_results(base: Offset, timestamp_ms: int, outcomes: list[WriteOutcome], pending: bool) -> None:
    result = WriteResult(base, timestamp_ms, outcomes, pending)
    wire = messages.write_reply([result]).SerializeToString()
    assert messages.write_results_from(kv.WriteReply.FromString(wire)) == [result]


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            lambda partition, base, ms, span: OutcomesPart(partition, base, ms, Offset(base + span - 1)),
            partition_ids,
            offsets,
            st.integers(0, 1 << 62),
            st.integers(1, 1 << 31),
        ),
        max_size=4,
    )
)
def test_questions_about_outcomes(parts: list[OutcomesPart]) -> None:
    wire = messages.outcomes_request(parts).SerializeToString()
    assert messages.outcomes_parts_from(kv.OutcomesRequest.FromString(wire)) == parts


def test_a_rejection_keeps_its_kind_and_fields() -> None:
    rejected = ConditionFailed("the key has version 3", offset=7, actual=3, failed=7)
    result = WriteResult(Offset(7), 1, [WriteOutcome(0, rejected)])
    (back,) = messages.write_results_from(messages.write_reply([result]))
    assert isinstance(back, WriteResult)
    (outcome,) = back.outcomes
    assert type(outcome.rejected) is ConditionFailed
    assert (outcome.rejected.message, outcome.rejected.fields) == (rejected.message, rejected.fields)


@settings(deadline=None)
@given(
    st.builds(
        ScanRequest,
        table_id=table_ids,
        start=st.binary(max_size=9),
        end=st.none() | keys,
        reverse=st.booleans(),
        limit=st.integers(0, 10_000),
        after=by_partition,
        strong=st.booleans(),
        partitions=st.lists(partitions, max_size=3, unique=True).map(tuple),
        lag_max_ms=lags,
        table_versions=st.dictionaries(partitions, st.integers(1, 1 << 31), max_size=3),
        past=st.none() | st.builds(PastScan, st.integers(-1, 1 << 62), st.none() | offsets),
        search=st.none() | st.builds(TextSearch, st.text(max_size=9), st.text(max_size=9), st.integers(0, 1 << 16)),
    )
)
def test_scan_requests(request: ScanRequest) -> None:
    wire = messages.scan_request(request).SerializeToString()
    assert messages.scan_from(kv.ScanRequest.FromString(wire)) == request


@settings(deadline=None)
@given(
    st.lists(st.tuples(keys, st.binary(max_size=9), st.integers(0, 1 << 62))),
    st.booleans(),
    by_partition,
    st.dictionaries(partitions, st.integers(1, 1 << 31), max_size=3),
)
def test_scan_results(
    entries: list[tuple[bytes, bytes, int]],
    more: bool,
    applied: dict[Partition, Offset],
    versions: dict[Partition, int],
) -> None:
    columns = [e[0] for e in entries], [e[1] for e in entries], [e[2] for e in entries]
    result = ScanResult(*columns, more, applied, versions)
    if more and entries:
        result = result._replace(reached=b"z", before=tuple(columns[1]), before_versions=tuple(columns[2]))
    elif entries:
        pieces = (Highlight("remark", "fog, fog", ((0, 3), (5, 8))), Highlight("name", "fog", ()))
        result = result._replace(scores=(1.5,) * len(entries), highlights=(pieces,) * len(entries))
    wire = messages.scan_reply(result).SerializeToString()
    assert messages.scan_result_from(kv.ScanReply.FromString(wire)) == result


@settings(deadline=None)
@given(
    st.builds(
        WatchEvent,
        partitions,
        st.binary(max_size=30),
        st.lists(offsets, max_size=3),
        offsets,
        st.none() | st.dictionaries(partitions, offsets, min_size=1, max_size=4),
    )
)
def test_watch_events(event: WatchEvent) -> None:
    wire = messages.watch_reply(event).SerializeToString()
    assert messages.watch_event_from(kv.WatchReply.FromString(wire)) == event


def test_tables_and_descriptions() -> None:
    assert ref_from(tables.Table.FromString(table_message(FLIGHTS).SerializeToString())) == FLIGHTS
    description = TableDescription(
        FLIGHTS,
        [
            PartitionDescription(Partition(0), Offset(5), Offset(4), Offset(-1), 0, 0, "replaying", ""),
            PartitionDescription(Partition(1), Offset(0), Offset(9), Offset(9), 3, 1 << 40, "stopped", "damaged: ü"),
        ],
        made_ms=1_700_000_000_123,
    )
    wire = description_message(description).SerializeToString()
    assert description_from(tables.TableDescription.FromString(wire)) == description


@pytest.mark.parametrize("raw", [b"", b"short", b"x" * 17])
def test_a_table_id_of_a_wrong_length_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="16 bytes"):
        messages.read_parts_from(kv.ReadRequest(parts=[kv.ReadPart(table_id=raw)]))
    with pytest.raises(InvalidRequest, match="16 bytes"):
        messages.write_parts_from(kv.WriteRequest(parts=[kv.WritePart(table_id=raw)]))
    with pytest.raises(InvalidRequest, match="16 bytes"):
        messages.scan_from(kv.ScanRequest(table_id=raw))
