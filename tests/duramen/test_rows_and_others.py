"""A table of rows, and callers that know nothing of rows: redis-py, gRPC's own client, Spark's place of a table."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import grpc
import pytest
import redis
from kit.client.server_process import ServerProcess
from kit.flight_rows import FLIGHTS, flight, flight_key
from kit.spark.table_places import place_of

from log_tier.catalog.cluster_map import TableEntry
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import TableId
from router.proto import kv_pb2, kv_pb2_grpc
from serving_tier.node.staging import check_version_of


@dataclass
class Departure:
    carrier: str
    flight: int
    tailnum: str | None
    dep_delay: float


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("rows")
    started = ServerProcess(folder / "data", log=folder / "log", arguments=["--resp-port", "0"])
    with started.connect() as db:
        table = db.create_table(
            "flights", row=Departure, key=("carrier", "flight"), partition_by="carrier", partitions=2
        )
        table.put(Departure("UA", 7, None, 1.5))
    yield started
    started.close()


def test_another_grpc_client_next_to_ours_hears_of_its_own_misfit_alone(server: ServerProcess) -> None:
    """Both write at once for a while; rows go through, and none of the other's bytes is ever there."""
    refusals: list[grpc.RpcError] = []

    def misfits() -> None:
        with grpc.insecure_channel(server.target) as channel:
            stub: Any = kv_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
            for number in range(50):
                try:
                    stub.Put(kv_pb2.KVPutRequest(table="flights", key=flight_key("AA", number), value=b"junk"))
                except grpc.RpcError as error:
                    refusals.append(error)

    other = threading.Thread(target=misfits)
    other.start()
    with server.connect() as db:
        table = db.table("flights", row=Departure)
        for number in range(100, 150):
            table.put(Departure("UA", number, None, 0.0))
        other.join()
        assert [each.code() for each in refusals] == [grpc.StatusCode.FAILED_PRECONDITION] * 50
        assert all("does not fit" in str(each.details()) for each in refusals)
        assert [each.flight for each in table.scan(carrier="UA", flight=(100, 200))] == list(range(100, 150))
        assert list(table.scan(carrier="AA")) == []


def test_stored_rows_of_another_client_are_rows(server: ServerProcess) -> None:
    with grpc.insecure_channel(server.target) as channel, server.connect() as db:
        stub: Any = kv_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
        stub.Put(kv_pb2.KVPutRequest(table="flights", key=flight_key("DL", 1), value=flight("DL", 1, "N1", 2.0)))
        assert db.table("flights", row=Departure).get("DL", 1, level="strong") == Departure("DL", 1, "N1", 2.0)


def test_redis_py_next_to_ours_writes_one_row(server: ServerProcess) -> None:
    """Two writers by two endpoints to one row: each write is whole, and both clients end with the same row."""
    client = redis.Redis(port=server.announcement["resp_port"])
    client.execute_command("SELECT", "flights")

    def by_redis() -> None:
        for number in range(50):
            row = {"carrier": "WN", "flight": 1, "tailnum": "redis", "dep_delay": number}
            client.set('["WN",1]', json.dumps(row))

    other = threading.Thread(target=by_redis)
    other.start()
    with server.connect() as db:
        table = db.table("flights", row=Departure)
        for number in range(50):
            table.put(Departure("WN", 1, "ours", float(number)))
            seen = table.get("WN", 1, level="strong")
            assert seen is not None
            assert seen.tailnum in ("redis", "ours")
        other.join()
        last = table.get("WN", 1, level="strong")
        assert last is not None
        stored: Any = client.get('["WN",1]')
        assert json.loads(stored) == asdict(last)
    client.close()


def test_rows_are_there_after_a_kill(server: ServerProcess) -> None:
    server.restart()
    with server.connect() as db:
        assert db.table("flights", row=Departure).get("UA", 7) == Departure("UA", 7, None, 1.5)


def test_builds_refuse_a_table_with_a_definition() -> None:
    place_of().check_bytes()
    with pytest.raises(InvalidRequest, match="no version of such a table is built as yet"):
        replace(place_of(), definition_text=FLIGHTS.text).check_bytes()
    table = TableEntry(TableId("uz7PoMe1SsyzElQe1u4IvA"), "flights", 1, 1, ((),), "fields:1", definition=FLIGHTS)
    with pytest.raises(InvalidRequest, match="no version of such a table is built elsewhere"):
        check_version_of(table, table.id, 1, "fields:1", "file:///build")
