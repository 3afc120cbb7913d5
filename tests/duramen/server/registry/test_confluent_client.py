"""Confluent's own client of a registry, against ours: it reads rows, and is refused in words that it understands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from kit.client.server_process import ServerProcess
from kit.flight_rows import flight_key

from router.proto import kv_pb2, kv_pb2_grpc

FIELDS = {"carrier": "UA", "flight": 7, "gates": ["B7"], "dep_delay": None}


@dataclass
class Hop:
    carrier: str
    flight: int
    gates: list[str]
    dep_delay: float | None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("registry")
    started = ServerProcess(folder / "data", log=folder / "log", arguments=["--http-port", "0"])
    with started.connect() as db:
        hops = db.create_table("hops", row=Hop, key=("carrier", "flight"), partitions=1)
        hops.put(Hop(**FIELDS))  # type: ignore[arg-type]
    yield started
    started.close()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": f"http://127.0.0.1:{server.announcement['http_port']}"}) as made:
        yield made


def subject_of(client: SchemaRegistryClient) -> str:
    """The one subject: with Kafka as the log the topic has its namespace before it."""
    found: str
    (found,) = client.get_subjects()
    assert found.endswith("hops-value")
    return found


def test_a_deserializer_reads_a_stored_row(server: ServerProcess, client: SchemaRegistryClient) -> None:
    with grpc.insecure_channel(server.target) as channel:
        stub: Any = kv_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
        get = kv_pb2.KVGetRequest(table="hops", key=flight_key("UA", 7), level=kv_pb2.KV_LEVEL_STRONG)
        stored = stub.Get(get).value
    context = SerializationContext(subject_of(client).removesuffix("-value"), MessageField.VALUE)
    assert AvroDeserializer(client)(stored, context) == FIELDS


def test_it_finds_its_way_from_the_subject_to_the_schema_and_back(client: SchemaRegistryClient) -> None:
    subject = subject_of(client)
    latest = client.get_latest_version(subject)
    assert (latest.version, latest.schema_id) == (1, 1)
    assert client.get_version(subject, 1).schema.schema_str == latest.schema.schema_str
    assert client.get_versions(subject) == [1]
    assert client.get_schema(1).schema_str == latest.schema.schema_str
    assert client.get_subjects_by_schema_id(1) == [subject]
    assert [(each.subject, each.version) for each in client.get_schema_versions(1)] == [(subject, 1)]
    assert client.get_compatibility() == "BACKWARD"
    assert client.get_compatibility(subject) == "BACKWARD"


def test_it_hears_what_is_not_there_and_what_it_may_not_do(client: SchemaRegistryClient) -> None:
    subject = subject_of(client)
    schema = Schema('{"type":"record","name":"Other","fields":[]}', "AVRO")
    refused: list[tuple[Any, tuple[int, int]]] = [
        (lambda: client.get_schema(99), (404, 40403)),
        (lambda: client.get_latest_version("none-value"), (404, 40401)),
        (lambda: client.get_version(subject, 2), (404, 40402)),
        (lambda: client.register_schema(subject, schema), (405, 42205)),
        (lambda: client.set_compatibility(level="NONE"), (405, 42205)),
        (lambda: client.delete_subject(subject), (405, 42205)),
    ]
    for call, codes in refused:
        with pytest.raises(SchemaRegistryError) as raised:
            call()
        assert (raised.value.http_status_code, raised.value.error_code) == codes


def test_it_asks_whether_a_schema_may_follow(client: SchemaRegistryClient) -> None:
    subject = subject_of(client)
    present = client.get_latest_version(subject).schema.schema_str
    assert present is not None
    more = {**json.loads(present), "fields": [*json.loads(present)["fields"], {"name": "seats", "type": "int"}]}
    assert client.test_compatibility(subject, Schema(present, "AVRO"))
    assert client.test_compatibility_all_versions(subject, Schema(present, "AVRO"))
    assert not client.test_compatibility(subject, Schema(json.dumps(more), "AVRO"), verbose=True)
    with pytest.raises(SchemaRegistryError) as raised:
        client.test_compatibility(subject, Schema("{", "AVRO"))
    assert (raised.value.http_status_code, raised.value.error_code) == (422, 42201)


def test_a_serializer_writes_with_the_latest_schema(client: SchemaRegistryClient) -> None:
    topic = subject_of(client).removesuffix("-value")
    settings = {"auto.register.schemas": False, "use.latest.version": True}
    context = SerializationContext(topic, MessageField.VALUE)
    written = AvroSerializer(client, conf=settings)(FIELDS, context)
    assert written is not None
    assert AvroDeserializer(client)(written, context) == FIELDS
