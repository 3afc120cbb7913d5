"""What a call is about, from its message, whatever a client has put in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.flight_rows import FLIGHTS as FLIGHT_ROWS
from kit.flight_rows import flight_key
from kit.log.sample_batches import plain_batch

from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.model.identifiers import table_id_from_bytes
from log_tier.proto import log_pb2
from log_tier.rows.definition import TableDefinition
from log_tier.rows.json_rows.json_table import KEYED_TEXT_MAX
from log_tier.rows.key_fields import KeyField
from log_tier.rows.tuple_key import pack_key
from log_tier.slow_calls.call_subject import CALL_KINDS, FIRST_ONLY, key_text_of, subject_of
from log_tier.slow_calls.slow_call import KEY_BYTES_MAX, NO_SUBJECT
from router.proto import keyvalue_pb2, kv_pb2, tables_pb2

RAW = b"0123456789abcdef"
FLIGHTS = TableEntry(table_id_from_bytes(RAW), "flights", 4, 1, ((), (), (), ()))
CLUSTER = ClusterMap().with_table(FLIGHTS)

MESSAGES = {
    "KeyValue": keyvalue_pb2,
    "KV": kv_pb2,
    "Log": log_pb2,
    "Tables": tables_pb2,
}


def test_every_kind_is_of_a_call_that_there_is_and_streams_are_those_that_clients_read() -> None:
    streams = set()
    for method in CALL_KINDS:
        _, service, name = method.replace("/duramen.v1.", "/").split("/")
        found = MESSAGES[service].DESCRIPTOR.services_by_name[service].methods_by_name[name]
        assert not found.client_streaming, method
        if found.server_streaming:
            streams.add(method)
    assert streams == {"/duramen.v1.KV/Find", "/duramen.v1.KV/Scan", *FIRST_ONLY}


def test_a_range_is_of_all_partitions() -> None:
    found = subject_of(kv_pb2.KVScanRequest(table="flights", prefix=b"UA"), CLUSTER)
    assert found == ("flights", [FLIGHTS.partition(number) for number in range(4)], None, 0)


def test_by_name_and_key() -> None:
    found = subject_of(kv_pb2.KVGetRequest(table="flights", key=b"k" * 100), CLUSTER)
    assert (found.table, found.key, found.items) == ("flights", b"k" * KEY_BYTES_MAX, 1)
    assert found.places == [FLIGHTS.partition(FLIGHTS.ref.partition_of(b"k" * 100))]
    found = subject_of(kv_pb2.KVGetManyRequest(table="flights", keys=[b"%d" % n for n in range(500)]), CLUSTER)
    assert (found.key, found.items, len(found.places)) == (b"0", 500, 4)
    write = kv_pb2.KVWriteRequest(table="flights", writes=[kv_pb2.KVWrite(key=b"a"), kv_pb2.KVWrite(key=b"b")])
    assert subject_of(write, CLUSTER)[2:] == (b"a", 2)
    assert subject_of(tables_pb2.FindTableRequest(name="flights"), CLUSTER).table == "flights"


def test_a_key_of_fields_has_a_text_as_far_as_it_was_kept() -> None:
    rows = replace(FLIGHTS, definition=FLIGHT_ROWS)
    cluster = ClusterMap().with_table(rows)
    long = "United Air Lines, of Chicago, Illinois"
    for carrier, text in (("UA", '["UA",1545]'), (long, '["United Air Lines, of Chicago, I…')):
        part = keyvalue_pb2.ReadPart(table_id=RAW, partition=2, keys=[flight_key(carrier, 1545)])
        subject = subject_of(keyvalue_pb2.ReadRequest(parts=[part]), cluster)
        assert key_text_of(subject, cluster) == text
        assert key_text_of(subject, CLUSTER) == key_text_of(subject, ClusterMap()) == key_text_of(subject, None) == ""
    assert key_text_of(NO_SUBJECT, cluster) == key_text_of(NO_SUBJECT._replace(table="flights"), cluster) == ""


def test_by_parts() -> None:
    part = keyvalue_pb2.ReadPart(table_id=RAW, partition=2, keys=[b"one", b"two"])
    found = subject_of(keyvalue_pb2.ReadRequest(parts=[part] * 3), CLUSTER)
    assert (found.table, found.key, found.items) == ("flights", b"one", 3)
    assert found.places[0] == FLIGHTS.partition(2)
    batch = plain_batch("UA1545")
    written = keyvalue_pb2.WriteRequest(parts=[keyvalue_pb2.WritePart(table_id=RAW, partition=1, batch=batch)])
    assert subject_of(written, CLUSTER) == ("flights", [FLIGHTS.partition(1)], b"UA1545", 1)
    appended = log_pb2.AppendRequest(topic_id=RAW, partition=1, batch=batch)
    assert subject_of(appended, None) == (None, [FLIGHTS.partition(1)], b"UA1545", 1), "a log alone knows no names"
    assert len(subject_of(keyvalue_pb2.ScanRequest(table_id=RAW), CLUSTER).places) == 4


def test_the_key_of_a_lone_large_record_is_known_and_none_of_many() -> None:
    """A put of a large value is what is slow."""
    many = [f"k{number}" for number in range(2000)]
    for batch, key in ((plain_batch("UA1545", value=b"v" * 100_000), b"UA1545"), (plain_batch(*many), None)):
        appended = log_pb2.AppendRequest(topic_id=RAW, partition=1, batch=batch)
        assert subject_of(appended, CLUSTER).key == key


@pytest.mark.parametrize(
    "message",
    [
        kv_pb2.KVGetRequest(table="\x1b[2J<script>\n", key=b"k"),
        kv_pb2.KVGetManyRequest(table="flights"),
        keyvalue_pb2.ReadRequest(),
        keyvalue_pb2.ReadRequest(parts=[keyvalue_pb2.ReadPart(table_id=b"short", keys=[b"k"])]),
        keyvalue_pb2.ReadRequest(parts=[keyvalue_pb2.ReadPart(table_id=RAW, partition=4_000_000_000)]),
        keyvalue_pb2.WriteRequest(parts=[keyvalue_pb2.WritePart(table_id=RAW, batch=b"no batch")]),
        keyvalue_pb2.ReadRequest(parts=[keyvalue_pb2.ReadPart(table_id=b"f" * 16, keys=[b"secret"])]),
        tables_pb2.ListTablesRequest(),
    ],
)
def test_nothing_that_a_client_made_up_is_shown(message: Any) -> None:
    found = subject_of(message, CLUSTER)
    assert found.table in ("flights", None)
    assert all(place.table == FLIGHTS.id and place.partition < 4 for place in found.places)
    if found.table is None:
        assert found.key is None
    assert subject_of(tables_pb2.ListTablesRequest(), CLUSTER) == NO_SUBJECT


def test_a_key_is_of_the_table_that_is_named() -> None:
    """Who may read that table is shown the key: it must not be one of another table."""
    gone = keyvalue_pb2.ReadPart(table_id=b"f" * 16, keys=[b"secret"])
    part = keyvalue_pb2.ReadPart(table_id=RAW, partition=1, keys=[b"k"])
    assert subject_of(keyvalue_pb2.ReadRequest(parts=[gone, part]), CLUSTER)[:3] == (
        "flights",
        [FLIGHTS.partition(1)],
        b"k",
    )


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1), st.binary(max_size=60))
def test_no_message_makes_it_fail(table_id: bytes, partition: int, batch: bytes) -> None:
    part = keyvalue_pb2.WritePart(table_id=table_id, partition=partition, batch=batch)
    for cluster in (CLUSTER, None):
        written = subject_of(keyvalue_pb2.WriteRequest(parts=[part]), cluster)
        appended = subject_of(log_pb2.AppendRequest(topic_id=table_id, partition=partition, batch=batch), cluster)
        assert written == appended


PLANES = replace(
    FLIGHTS,
    name="planes",
    partitioner="fields:1",
    definition=TableDefinition(key=(KeyField("carrier", "str"), KeyField("flight", "int")), value="json"),
)
ROWS = ClusterMap().with_table(PLANES)
JSON = kv_pb2.KV_FORM_JSON
UA_1545 = pack_key("UA", 1545)


def test_every_call_on_tables_is_measured() -> None:
    """A method that nobody has put here would be missing in the slow log, however long its calls take."""
    for service in ("KV", "KeyValue", "Tables"):
        for name in MESSAGES[service].DESCRIPTOR.services_by_name[service].methods_by_name:
            assert f"/duramen.v1.{service}/{name}" in CALL_KINDS


def test_a_find_is_of_all_partitions() -> None:
    found = subject_of(kv_pb2.KVFindRequest(table="flights", where='{"carrier":"UA"}'), CLUSTER)
    assert found == ("flights", [FLIGHTS.partition(number) for number in range(4)], None, 0)


@pytest.mark.parametrize(
    "request_",
    [
        kv_pb2.KVGetRequest(table="planes", key=b'["UA", 1545]', form=JSON),
        kv_pb2.KVGetManyRequest(table="planes", keys=[b'["UA",1545]'], form=JSON),
        kv_pb2.KVUpdateRequest(table="planes", key=b'["UA",1545]', form=JSON),
        kv_pb2.KVWriteRequest(table="planes", writes=[kv_pb2.KVWrite(key=b'["UA",1545]', put=b"1")], form=JSON),
        kv_pb2.KVGetRequest(table="planes", key=UA_1545),
    ],
)
def test_a_key_that_is_written_as_text_is_the_stored_one(request_: Any) -> None:
    """Grants on a key prefix decide who is shown it, and its partition says which request carried the call."""
    place = PLANES.partition(PLANES.ref.partition_of(UA_1545))
    assert subject_of(request_, ROWS) == ("planes", [place], UA_1545, 1)


@pytest.mark.parametrize("text", [b"", b"[", b'["UA"]', b"\xff", b"[" * 10_000])
def test_a_text_of_no_key_shows_none_and_may_be_of_each_partition(text: bytes) -> None:
    found = subject_of(kv_pb2.KVPutRequest(table="planes", key=text, value=b"1", form=JSON), ROWS)
    assert found == ("planes", [PLANES.partition(number) for number in range(4)], None, 1)


ROW = b'{"dep_delay":1.5,"carrier":"UA","flight":1545}'
OF_ROWS = replace(FLIGHTS, name="planes", partitioner=FLIGHT_ROWS.partitioner, definition=FLIGHT_ROWS)


@pytest.mark.parametrize(
    "request_",
    [
        kv_pb2.KVPutRequest(table="planes", value=ROW, form=JSON),
        kv_pb2.KVWriteRequest(table="planes", writes=[kv_pb2.KVWrite(put=ROW)], form=JSON),
    ],
)
def test_a_row_that_is_put_without_its_key_has_it_inside(request_: Any) -> None:
    place = OF_ROWS.partition(OF_ROWS.ref.partition_of(UA_1545))
    assert subject_of(request_, ClusterMap().with_table(OF_ROWS)) == ("planes", [place], UA_1545, 1)


@pytest.mark.parametrize("row", [b"", b"{", b'{"carrier":"UA"}', b" " * KEYED_TEXT_MAX + ROW])
def test_a_row_whose_key_is_not_found_may_be_of_each_partition(row: bytes) -> None:
    found = subject_of(kv_pb2.KVPutRequest(table="planes", value=row, form=JSON), ClusterMap().with_table(OF_ROWS))
    assert found == ("planes", [OF_ROWS.partition(number) for number in range(4)], None, 1)
