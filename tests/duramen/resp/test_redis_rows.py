"""A table of rows by the Redis protocol: JSON rows under JSON keys, whatever else the connection does."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s
from kit.hostile_json import hostile_rows

import duramen
from router.endpoints.resp.command_spec import DATA_KINDS
from router.endpoints.resp.commands.command_table import COMMANDS
from router.endpoints.resp.row_words import OF_KEYS, PARTS_OF_VALUES, REPLIES, VALUES

SCHEMA = {
    "type": "record",
    "name": "Departure",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "flight", "type": "int"},
        {"name": "gate", "type": ["null", "string"], "default": None},
        {"name": "legs", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}

KEY = '["UA",1545]'


def row(**changed: Any) -> str:
    fields = {"carrier": "UA", "flight": 1545, "gate": "B7", "legs": []} | changed
    return json.dumps(fields, separators=(",", ":"))


@pytest.fixture(scope="module", params=["0", "1"], ids=["one process", "a reader"])
def server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("rows")
    arguments = ["--resp-port", "0", "--resp-readers", request.param]
    started = ServerProcess(folder / "data", log=folder / "log", arguments=arguments)
    with started.connect() as db:
        db.create_table("default", row=SCHEMA, key=("carrier", "flight"), partition_by="carrier", partitions=2)
        alone = {"by_gate": duramen.OrderedIndex("carrier", "gate", unique=True)}
        how: Any = {"row": SCHEMA, "key": ("carrier", "flight"), "partition_by": "carrier", "partitions": 2}
        db.create_table("gates", **how, indexes=alone)
        db.create_table("words", key=str, value=str, partitions=1)
    yield started
    started.close()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Any]:
    """In the table of rows, which is the one that connections begin in; it is empty."""
    with redis.Redis(port=server.announcement["resp_port"], decode_responses=True) as connected:
        connected.flushdb()
        yield connected


def test_every_command_on_keys_is_known() -> None:
    """A new command on keys must say what its words are, or rows would be written by it as they came."""
    data = {spec.name for spec in COMMANDS.values() if spec.kind in DATA_KINDS}
    assert data <= VALUES.keys() | REPLIES | PARTS_OF_VALUES | OF_KEYS


def test_rows_go_in_and_come_out(client: Any, server: ServerProcess) -> None:
    assert client.get(KEY) is None
    assert client.set('[ "UA", 1545 ]', '{"flight": 1545, "carrier": "UA", "gate": "B7"}') is True
    assert client.get(KEY) == row()
    with server.connect() as db:
        found = db.table("default", row=SCHEMA).get("UA", 1545, level="strong")
        assert found == json.loads(row())
    assert client.mset({'["UA",7]': row(flight=7), '["UA",8]': row(flight=8)}) is True
    assert client.mget(KEY, '["UA",9]', '["UA",7]') == [row(), None, row(flight=7)]
    assert client.exists(KEY, '["UA",9]') == 1
    assert client.set(KEY, row(gate="C1"), nx=True) is None
    assert client.set(KEY, row(gate="C1"), get=True) == row()
    assert client.getset(KEY, row()) == row(gate="C1")
    assert client.expire(KEY, 100) is True
    assert 0 < client.ttl(KEY) <= 100
    assert client.persist(KEY) is True
    assert client.get(KEY) == row(), "the row is as it was"
    assert client.getdel(KEY) == row()
    assert client.dbsize() == 2


def test_what_does_not_fit_is_refused_and_nothing_is_written(client: Any) -> None:
    for key, value, reason in (
        (KEY, '{"carrier": "UA", "flight": "x"}', 'the field flight is "x", expected an int'),
        (KEY, '{"carrier": "UA"}', "the field flight is missing, expected int"),
        (KEY, row(flight=1546), "the field flight is 1546 in the row, and 1545 in the key"),
        (KEY, "departed", "the row is no JSON"),
        ("UA", row(), "the key UA is no JSON"),
        ('["UA"]', row(), "the key has the fields carrier, flight, and 1 values are given"),
        ('["UA","x"]', row(), 'the key\'s field flight is "x", expected a whole number'),
    ):
        with pytest.raises(redis.ResponseError) as refused:
            client.set(key, value)
        assert reason in str(refused.value)
    with pytest.raises(redis.ResponseError, match="the field flight is missing"):
        client.mset({KEY: row(), '["UA",7]': '{"carrier": "UA"}'})
    assert client.keys() == []


def test_parts_of_rows_are_refused_with_what_to_do(client: Any) -> None:
    client.set(KEY, row())
    for command in (("INCR", KEY), ("APPEND", KEY, "x"), ("SETRANGE", KEY, 0, "x"), ("STRLEN", KEY)):
        with pytest.raises(redis.ResponseError, match=r"WRONGTYPE values of this table are rows.* as a whole"):
            client.execute_command(*command)
    assert client.get(KEY) == row()


def test_a_pipeline_hears_of_its_own_misfit_alone(client: Any) -> None:
    """One's misfit is never in another command: what is around it takes effect, in order."""
    with client.pipeline(transaction=False) as pipe:
        pipe.set(KEY, row()).set(KEY, "junk").get(KEY).incr(KEY).set(KEY, row(gate=None)).get(KEY).delete(KEY)
        replies = pipe.execute(raise_on_error=False)
    assert [type(each).__name__ for each in replies] == [
        "bool",
        "ResponseError",
        "str",
        "ResponseError",
        "bool",
        "str",
        "int",
    ]
    assert (replies[2], replies[5], replies[6]) == (row(), row(gate=None), 1)


def test_transactions_and_watch(client: Any) -> None:
    client.set(KEY, row())
    with client.pipeline() as pipe:
        pipe.watch('["UA", 1545]')
        pipe.multi()
        pipe.set(KEY, row(gate="C1")).get(KEY).delete('["UA",7]')
        assert pipe.execute() == [True, row(gate="C1"), 0]
        pipe.watch(KEY)
        client.set(KEY, row(gate="D1"))
        pipe.multi()
        pipe.set(KEY, row(gate="C2"))
        with pytest.raises(redis.WatchError):
            pipe.execute()
    with client.pipeline() as pipe:
        pipe.set(KEY, row(gate="E1")).set(KEY, "junk")
        with pytest.raises(redis.ResponseError, match="nothing was done: the row is no JSON"):
            pipe.execute()
    assert client.get(KEY) == row(gate="D1")


def test_walks_and_patterns_are_over_the_text_of_keys(client: Any) -> None:
    for carrier in ("AA", "UA"):
        for flight in (7, 8):
            client.set(f'["{carrier}",{flight}]', row(carrier=carrier, flight=flight))
    assert client.keys('\\["UA",*') == ['["UA",7]', '["UA",8]']
    assert client.keys("*7]") == ['["AA",7]', '["UA",7]']
    assert list(client.scan_iter('\\["AA",[0-9]*', count=1)) == ['["AA",7]', '["AA",8]']
    assert sorted(client.scan_iter(count=1)) == sorted(client.keys())
    assert client.exists(client.randomkey()) == 1


def test_notifications_name_keys_by_their_text(client: Any) -> None:
    with client.pubsub() as listening:
        listening.subscribe(f"__keyspace@0__:{KEY}")
        assert listening.get_message(timeout=patience_s(10))["type"] == "subscribe"
        client.set(KEY, row())
        ends_s = time.monotonic() + patience_s(20)
        message = None
        while message is None and time.monotonic() < ends_s:
            message = listening.get_message(timeout=1)
    assert message is not None
    assert (message["channel"], message["data"]) == (f"__keyspace@0__:{KEY}", "set")


def test_values_with_versions(client: Any) -> None:
    version = client.execute_command("DURAMEN.SETV", KEY, row(), -1)
    assert client.execute_command("DURAMEN.GETV", KEY) == [row(), version]
    assert client.execute_command("DURAMEN.SETV", KEY, row(gate=None), version + 1000) is None
    with pytest.raises(redis.ResponseError, match="the row is no JSON"):
        client.execute_command("DURAMEN.SETV", KEY, "junk", version)


def test_a_table_of_text_keeps_the_commands_on_parts(server: ServerProcess) -> None:
    with redis.Redis(port=server.announcement["resp_port"]) as client:
        client.execute_command("SELECT", "words")
        client.set("k", "Zürich")
        assert client.append("k", "!") == len("Zürich!".encode())
        with pytest.raises(redis.ResponseError, match="no UTF-8"):
            client.set("k", b"\xff")
        assert client.get("k") == "Zürich!".encode()
        client.execute_command("SELECT", "1")
        assert client.set("plain", b"\xff") is True
        assert client.get("plain") == b"\xff"


def test_hostile_rows_are_refused_and_the_connection_goes_on(client: Any) -> None:
    """Hundreds in one pipeline; after each refusal the row is the last one that fitted."""
    texts = list(hostile_rows(random.Random(7), 1000))
    with client.pipeline(transaction=False) as pipe:
        for text in texts:
            pipe.set(KEY, text)
        replies = pipe.execute(raise_on_error=False)
    assert len(replies) == len(texts)
    assert {type(each) for each in replies} <= {bool, redis.ResponseError, redis.exceptions.InvalidResponse}
    assert client.ping() is True
    found = client.get(KEY)
    assert found is None or json.loads(found)["flight"] == 1545


def test_rows_of_a_schema_that_came_later(server: ServerProcess) -> None:
    """Both connections were in the table before. One server, and a process that reads for it."""
    later = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "seats", "type": "int", "default": 9}]}
    with server.connect() as db:
        flights = db.create_table("altered", row=SCHEMA, key=("carrier", "flight"), partitions=1)
        with redis.Redis(port=server.announcement["resp_port"], decode_responses=True, db=0) as client:
            client.execute_command("SELECT", "altered")
            client.set(KEY, row())
            assert client.get(KEY) == row()
            gated = flights.alter(row=later)
            assert client.get(KEY) == row(seats=9)
            client.set(KEY, row(seats=3))
            assert client.get(KEY) == row(seats=3)
            token = gated.put({**json.loads(row(seats=4))}).token
            client.execute_command("DURAMEN.AFTER", token)
            assert client.get(KEY) == row(seats=4)
            with client.pipeline(transaction=True) as pipe:
                pipe.set(KEY, row(seats=5))
                pipe.get(KEY)
                assert pipe.execute() == [True, row(seats=5)]
            with pytest.raises(redis.ResponseError, match="no such field"):
                client.set(KEY, row(wings=2))
        db.drop_table("altered")


@pytest.fixture
def gates(server: ServerProcess) -> Iterator[Any]:
    """In a table with a unique index, which is empty."""
    with redis.Redis(port=server.announcement["resp_port"], decode_responses=True) as connected:
        connected.execute_command("SELECT", "gates")
        connected.flushdb()
        yield connected


def keyed(flight: int, gate: str | None = "B7") -> tuple[str, str]:
    return json.dumps(["UA", flight], separators=(",", ":")), row(flight=flight, gate=gate)


def test_a_value_that_one_row_has_alone(gates: Any) -> None:
    gates.set(*keyed(1))
    gates.set(*keyed(1))
    for command in (
        ("SET", *keyed(2)),
        ("SET", *keyed(2), "NX"),
        ("GETSET", *keyed(2)),
        ("MSET", *keyed(3, "C1"), *keyed(2)),
    ):
        with pytest.raises(redis.ResponseError, match=r'^UNIQUEVIOLATION .*\["UA",1\].*by_gate'):
            gates.execute_command(*command)
    assert gates.keys() == ['["UA",1]'], "nothing of an MSET is there"
    gates.delete('["UA",1]')
    assert gates.set(*keyed(2)) is True


def test_of_a_pipeline_the_first_one_has_the_value(gates: Any) -> None:
    """They come in one round, and each command hears of itself."""
    with gates.pipeline(transaction=False) as pipe:
        pipe.set(*keyed(1)).set(*keyed(2)).get('["UA",2]').set(*keyed(3, "C1")).delete('["UA",1]').set(*keyed(4))
        replies = pipe.execute(raise_on_error=False)
    assert [type(each).__name__ for each in replies] == ["bool", "ResponseError", "NoneType", "bool", "int", "bool"]
    assert sorted(gates.keys()) == ['["UA",3]', '["UA",4]']


def test_a_transaction_with_a_violation_is_void_whole(gates: Any) -> None:
    gates.set(*keyed(1))
    with gates.pipeline() as pipe:
        pipe.set(*keyed(2, "C1")).set(*keyed(3))
        with pytest.raises(redis.ResponseError, match="UNIQUEVIOLATION"):
            pipe.execute()
    assert gates.keys() == ['["UA",1]']
