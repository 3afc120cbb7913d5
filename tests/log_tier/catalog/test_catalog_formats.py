"""Commands and maps as they are stored: format 1 stays readable, and unknown fields are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from log_tier.catalog import map_json
from log_tier.catalog.catalog import CATALOG_TOPIC
from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import (
    ClusterMap,
    SnapshotEntry,
    TableEntry,
    address_for_clients,
    address_for_servers,
)
from log_tier.catalog.commands import (
    AddSnapshot,
    ClearTable,
    CreateTable,
    NoteAudit,
    RegisterNode,
    SetRetention,
    command_batch,
    parse_command,
)
from log_tier.catalog.map_json import MapTexts, map_from_json, map_to_json
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import (
    UnknownFormat,
)
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.retention import FOREVER, Retention
from log_tier.model.table_ref import TableRef
from log_tier.tally.audit_note import AuditedPart, AuditNote

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize(
    "value",
    [
        b"no json",
        b"[]",
        b'{"v": 2, "id": "x", "table": "t"}',
        b'{"v": 1, "id": "x"}',
        b'{"v": 1, "id": "x", "table": 7}',
        b'{"v": 1, "id": "x", "table": "t", "more": 1}',
        b"[" * 100_000,
    ],
)
def test_records_that_are_no_commands(value: bytes) -> None:
    with pytest.raises(UnknownFormat):
        parse_command(b"drop-table", value)


def test_records_of_format_1_stay_readable() -> None:
    """The file was written when format 1 landed; it is never written again."""
    lines = (FIXTURES / "commands-1.jsonl").read_text().splitlines()
    assert len(lines) == 11
    for line in lines:
        document = json.loads(line)
        command_id, command = parse_command(document["key"].encode(), document["value"].encode())
        assert command_id == "0123456789abcdef"
        assert type(command).__name__ == document["class"]


def value_of(command: AddSnapshot | ClearTable | CreateTable | NoteAudit | RegisterNode | SetRetention) -> str:
    """What would be written."""
    batch = command_batch(command, "0123456789abcdef")
    return (
        decode_batch(stamp_batch(batch, base_offset=Offset(0), timestamp_ms=0, unsynced=0)).columns.values[0].decode()
    )


def test_tables_that_are_more_than_the_first_format_knew() -> None:
    """Fields with defaults came later, in the same format: who does not know them stops at them."""
    lines = (FIXTURES / "commands-1-tables.jsonl").read_text().splitlines()
    wanted = [
        CreateTable(TableId("uz7PoMe1SsyzElQe1u4IvA"), "flights", 2, 1, "murmur2"),
        CreateTable(
            TableId("uz7PoMe1SsyzElQe1u4IvA"),
            "orders",
            2,
            1,
            "murmur2",
            adopted=True,
            over="orders-v1",
            starts=(Offset(120), Offset(0)),
        ),
        CreateTable(
            TableId("uz7PoMe1SsyzElQe1u4IvA"), "events", 2, 1, retention_ms=604_800_000, retention_bytes=1 << 30
        ),
    ]
    for line, command in zip(lines, wanted, strict=True):
        document = json.loads(line)
        assert parse_command(document["key"].encode(), document["value"].encode()) == ("0123456789abcdef", command)
        assert value_of(command) == document["value"]
    (usual,) = [line for line in (FIXTURES / "commands-1.jsonl").read_text().splitlines() if "CreateTable" in line]
    usual_value = json.loads(usual)["value"]
    _, read = parse_command(b"create-table", usual_value.encode())
    assert read == CreateTable(TableId("uz7PoMe1SsyzElQe1u4IvA"), "flights", 2, 1, "slot", False, "", ())
    assert value_of(read) == usual_value, "a usual table is written as it always was"


def test_when_a_table_was_made() -> None:
    """It came later: of a table of an older server's map it is not known."""
    cluster, _ = fold_command(ClusterMap(), Offset(0), 1, "1", RegisterNode("n1", "host:1", "a"))
    made = CreateTable(TableId("uz7PoMe1SsyzElQe1u4IvA"), "flights", 1, 1)
    cluster, _ = fold_command(cluster, Offset(1), 1_700_000_000_123, "2", made)
    again, answer = fold_command(cluster, Offset(2), 1_800_000_000_000, "3", made)
    assert answer is not None
    assert again.find("flights").made_ms == 1_700_000_000_123, "who came second made nothing"
    text = map_to_json(cluster)
    assert b'"made_ms":1700000000123' in text
    assert map_from_json(text).find("flights") == cluster.find("flights")
    older = map_from_json((FIXTURES / "map-1-tables.json").read_bytes())
    assert {each.made_ms for each in older.tables.values()} == {0}


def test_a_node_with_a_port_for_servers() -> None:
    """It came later: a field of the command and of the map, which nodes without such a port are written without."""
    document = json.loads((FIXTURES / "commands-1-peers.jsonl").read_text())
    command = RegisterNode("n1", "host-1:7072", "0f8c2b6a9d1e4f70", peer_address="host-1:7082")
    assert parse_command(document["key"].encode(), document["value"].encode()) == ("0123456789abcdef", command)
    assert value_of(command) == document["value"]
    (usual,) = [line for line in (FIXTURES / "commands-1.jsonl").read_text().splitlines() if "RegisterNode" in line]
    _, read = parse_command(b"register-node", json.loads(usual)["value"].encode())
    assert isinstance(read, RegisterNode)
    assert (read.peer_address, value_of(read)) == ("", json.loads(usual)["value"])
    text = (FIXTURES / "map-1-peers.json").read_bytes().strip()
    cluster = map_from_json(text)
    first, second = cluster.nodes.values()
    assert (address_for_servers(first), address_for_clients(first)) == ("host-1:7082", "host-1:7072")
    assert address_for_servers(second) == address_for_clients(second) == "host-2:7072"
    assert map_to_json(cluster) == text


@pytest.mark.parametrize(
    "fields", ['"partitioner":"crc32"', '"starts":5', '"starts":["a"]', '"adopted":1', '"over":null', '"starts":"12"']
)
def test_tables_that_a_newer_version_wrote(fields: str) -> None:
    value = f'{{"v":1,"id":"x","table":"t","name":"t","partitions":1,"replicas":1,{fields}}}'
    with pytest.raises(UnknownFormat):
        parse_command(b"create-table", value.encode())


def test_the_map_with_such_tables() -> None:
    text = (FIXTURES / "map-1-tables.json").read_bytes().strip()
    cluster = map_from_json(text)
    flights, orders = cluster.tables.values()
    assert (flights.partitioner, flights.adopted, flights.over, flights.starts) == ("slot", False, "", ())
    assert (orders.partitioner, orders.adopted, orders.over, orders.starts) == ("murmur2", True, "orders-v1", (120, 0))
    assert [orders.start(Partition(number)) for number in range(2)] == [120, 0]
    assert flights.start(Partition(1)) == 0
    assert orders.ref == TableRef(orders.id, "orders", 2, "murmur2", "orders-v1")
    assert map_to_json(cluster) == text
    with pytest.raises(UnknownFormat, match="the partitioner 'murmur3', which this process does not know: update"):
        map_from_json(text.replace(b'"murmur2"', b'"murmur3"'))


def test_of_a_map_that_changes_one_table_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = map_from_json((FIXTURES / "map-1-tables.json").read_bytes().strip())
    flights, orders = cluster.tables.values()
    encoded: list[str] = []
    inner = map_json.usual_left_out

    def noted(entry: TableEntry) -> dict[str, Any]:
        encoded.append(entry.name)
        return inner(entry)

    monkeypatch.setattr(map_json, "usual_left_out", noted)
    texts = MapTexts()
    first = texts.encode(cluster)
    assert encoded == ["flights", "orders"]
    changed = replace(cluster, tables=cluster.tables.with_entry(orders.id, replace(orders, retention_ms=5)))
    second = texts.encode(changed)
    assert encoded == ["flights", "orders", "orders"]
    gone = replace(changed, tables=changed.tables.without(flights.id))
    third = texts.encode(gone)
    assert encoded == ["flights", "orders", "orders"]
    assert [first, second, third] == [map_to_json(each) for each in (cluster, changed, gone)]


def test_the_followers_of_a_process_share_a_map() -> None:
    text = (FIXTURES / "map-1-tables.json").read_bytes().strip()
    assert map_from_json(bytes(bytearray(text))) is map_from_json(bytes(bytearray(text)))


def test_the_retention_of_a_table() -> None:
    """It came later as well: a command of its own, and two fields that are written only if they are not the default."""
    document = json.loads((FIXTURES / "commands-1-retention.jsonl").read_text())
    command = SetRetention(TableId("uz7PoMe1SsyzElQe1u4IvA"), 604_800_000, 1 << 30)
    assert parse_command(document["key"].encode(), document["value"].encode()) == ("0123456789abcdef", command)
    assert value_of(command) == document["value"]
    text = (FIXTURES / "map-1-retention.json").read_bytes().strip()
    cluster = map_from_json(text)
    (flights,) = cluster.tables.values()
    assert flights.retention == Retention(604_800_000, 1 << 30)
    assert map_to_json(cluster) == text
    (earlier,) = map_from_json((FIXTURES / "map-1.json").read_bytes()).tables.values()
    assert earlier.retention == FOREVER


def test_a_table_that_was_audited() -> None:
    """A command of its own, and a field of the map: who does not know the command stops there."""
    document = json.loads((FIXTURES / "commands-1-audit.jsonl").read_text())
    equal = AuditedPart(Partition(0), 81204, Offset(90311))
    different = AuditedPart(Partition(1), 7, Offset(12), "different", "offsets 3 to 4 are not in the log")
    note = AuditNote("export", "s3://lake/flights", (equal, different))
    command = NoteAudit(TableId("uz7PoMe1SsyzElQe1u4IvA"), note)
    assert parse_command(document["key"].encode(), document["value"].encode()) == ("0123456789abcdef", command)
    assert value_of(command) == document["value"]
    text = (FIXTURES / "map-1-audit.json").read_bytes().strip()
    cluster = map_from_json(text)
    (flights,) = cluster.tables.values()
    assert [(each.tier, each.name, len(each.parts)) for each in flights.audits] == [("export", "s3://lake/flights", 2)]
    assert flights.audits[0].parts == (replace(equal, checked_ms=1000), replace(different, checked_ms=1000))
    assert map_to_json(cluster) == text
    newer = text.replace(b'"rows":81204', b'"rows":81204,"bytes":7')
    assert map_from_json(newer) == cluster, "a newer server may say more of a part"
    (earlier,) = map_from_json((FIXTURES / "map-1.json").read_bytes()).tables.values()
    assert earlier.audits == ()


@pytest.mark.parametrize(
    "note",
    [
        "5",
        '{"tier":"export","name":"a"}',
        '{"tier":"export","name":"a","parts":7}',
        '{"tier":"export","name":"a","parts":[],"more":1}',
        '{"tier":"export","name":7,"parts":[]}',
        '{"tier":"export","name":"a","parts":[{"partition":0,"rows":1}]}',
        '{"tier":"export","name":"a","parts":[{"partition":0,"rows":"1","until":0}]}',
        '{"tier":"export","name":"a","parts":[{"partition":0,"rows":1,"until":0,"more":1}]}',
    ],
)
def test_audits_that_a_newer_version_noted(note: str) -> None:
    with pytest.raises(UnknownFormat):
        parse_command(b"note-audit", f'{{"v":1,"id":"x","table":"t","note":{note}}}'.encode())


def test_a_clearing() -> None:
    """A command of its own: who does not know it stops there, and would else have a table that was not cleared."""
    document = json.loads((FIXTURES / "commands-1-clear.jsonl").read_text())
    command = ClearTable(TableId("uz7PoMe1SsyzElQe1u4IvA"), (Offset(12), NOTHING), 1)
    assert parse_command(document["key"].encode(), document["value"].encode()) == ("0123456789abcdef", command)
    assert value_of(command) == document["value"]
    text = (FIXTURES / "map-1-clear.json").read_bytes().strip()
    cluster = map_from_json(text)
    (job,) = cluster.jobs.values()
    assert (job.kind, [task.action for task in job.tasks]) == ("clear", ["stage", "stage", "swap"])
    (flights,) = cluster.tables.values()
    assert [(version.state, version.url) for version in flights.versions] == [("live", ""), ("staged", "empty:12,-1/2")]
    assert map_to_json(cluster) == text


def test_a_table_that_was_swapped() -> None:
    """Two fields came later; an earlier record has neither, and its snapshot of a swapped table covers nothing."""
    document = json.loads((FIXTURES / "commands-1-swap.jsonl").read_text())
    table, partition = TableId("uz7PoMe1SsyzElQe1u4IvA"), Partition(0)
    entry = SnapshotEntry("5f3a", table, partition, Offset(40), 7, 10, 100, "x/5f3a", "n1", 2, 12)
    assert parse_command(document["key"].encode(), document["value"].encode()) == (
        "0123456789abcdef",
        AddSnapshot(entry),
    )
    assert value_of(AddSnapshot(entry)) == document["value"]
    text = (FIXTURES / "map-1-swap.json").read_bytes().strip()
    cluster = map_from_json(text)
    (flights,) = cluster.tables.values()
    assert (flights.live_version, flights.last_swap) == (2, 12)
    assert [each.swap for each in cluster.snapshots_of(entry.partition_id)] == [12, -1]
    assert cluster.covering(entry.partition_id) == entry
    assert map_to_json(cluster) == text


@pytest.mark.parametrize("offsets", ['"12"', '["a"]', "[true]", "[-2]", "5"])
def test_offsets_of_a_clearing_that_are_none(offsets: str) -> None:
    with pytest.raises(UnknownFormat):
        parse_command(b"clear-table", f'{{"v":1,"id":"x","table":"t","offsets":{offsets},"keep":0}}'.encode())


def test_the_map_of_format_1_stays_readable() -> None:
    text = (FIXTURES / "map-1.json").read_bytes().strip()
    cluster = map_from_json(text)
    assert isinstance(cluster, ClusterMap)
    assert (len(cluster.nodes), len(cluster.tables), len(cluster.jobs), len(cluster.snapshots)) == (2, 1, 1, 1)
    assert map_to_json(cluster) == text
    with pytest.raises(UnknownFormat, match="has format 3"):
        map_from_json(text.replace(b'"v":1', b'"v":3'))


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("map-1*.json")))
def test_a_map_of_a_newer_server_with_fields_that_are_unknown_here(name: str) -> None:
    """In every object and every replica of it: the follower of an older client goes on with what it knows."""

    def newer(value: object) -> object:
        if isinstance(value, dict):
            return {**{key: newer(each) for key, each in value.items()}, "later": {"than": ["this"]}}
        if isinstance(value, list):
            return [newer(each) for each in value]
        return value

    text = (FIXTURES / name).read_bytes()
    document = newer(json.loads(text))
    assert isinstance(document, dict)
    document["tables"] = [
        {**table, "assignments": [[[*replica, "later"] for replica in each] for each in table["assignments"]]}
        for table in document["tables"]
    ]
    for job in document["jobs"]:
        job["arguments"].pop("later")
        for task in job["tasks"]:
            task["arguments"].pop("later")
    assert map_from_json(json.dumps(document).encode()) == map_from_json(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b"no JSON",
        b'{"v":1}',
        b'{"v":1,"version":0,"nodes":[{}],"tables":[],"jobs":[],"snapshots":[],"dropped":[]}',
        b'{"v":1,"version":0,"nodes":[7],"tables":[],"jobs":[],"snapshots":[],"dropped":[]}',
        b'{"v":1,"version":0,"nodes":[],"tables":[{"id":"t","assignments":[[["n1"]]]}],"jobs":[],"snapshots":[],"dropped":[]}',
        b"[" * 100_000,
    ],
    ids=lambda text: text[:20].decode(),
)
def test_what_is_no_map(text: bytes) -> None:
    """A follower goes on asking; it does not end by a bug."""
    with pytest.raises(UnknownFormat):
        map_from_json(text)


def test_the_batch_of_a_command_is_one_record() -> None:
    assert command_batch(RegisterNode("n1", "", "a"), "id")[56:60] == (1).to_bytes(4, "little")
    assert CATALOG_TOPIC == "_duramen_catalog"
    assert Offset(0) == 0
