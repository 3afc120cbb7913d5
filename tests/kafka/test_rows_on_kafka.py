"""A table of rows whose log is Kafka, read from the topic by a consumer that asks our server for the schema."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from kit.deadlines import patience_s
from kit.kafka.foreign import DEADLINE_S
from kit.kafka.up_on_kafka import Up

import duramen

pytestmark = pytest.mark.kafka


@dataclass
class AvroLeg:
    carrier: str
    flight: int
    tailnum: str | None


@dataclass
class GatedLeg(AvroLeg):
    """A leg of the next schema."""

    gate: str = "-"


LEGS = [AvroLeg("UA", number, f"N{number}" if number % 2 else None) for number in range(20)]


def kcat_reads_avro() -> bool:
    if shutil.which("kcat") is None:
        return False
    shown = subprocess.run(["kcat", "-V"], capture_output=True, text=True, timeout=patience_s(30), check=True).stdout
    return "Avro" in shown


def read_rows(kafka: str, topic: str, registry: str, count: int) -> list[Any]:
    """The first rows of the topic, as Confluent's client reads them."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    rows: list[Any] = []
    with SchemaRegistryClient({"url": registry}) as client:
        read = AvroDeserializer(client)
        consumer.subscribe([topic])
        try:
            while len(rows) < count:
                message = consumer.poll(patience_s(DEADLINE_S))
                assert message is not None, f"{len(rows)} rows of {count} have come"
                assert message.error() is None
                if not message.key():
                    continue  # a barrier: a change of the schema, or a clearing
                rows.append(read(message.value(), SerializationContext(topic, MessageField.VALUE)))
        finally:
            consumer.close()
    return rows


@pytest.fixture
def topic(kafka: str, tmp_path: Path, up: Callable[..., Up]) -> tuple[str, str]:
    """The topic of a table of rows, and the registry of its server."""
    namespace = f"t{uuid.uuid4().hex[:12]}"
    server = up(tmp_path / "data", f"kafka://{kafka}/{namespace}", "--http-port", "0")
    port = server.said["http_port"]
    with duramen.connect(f"127.0.0.1:{server.said['port']}") as db:
        db.create_table("legs", row=AvroLeg, key=("carrier", "flight"), partitions=1).put_many(LEGS)
    return f"{namespace}.legs", f"http://127.0.0.1:{port}"


def test_a_consumer_of_the_topic_reads_its_rows(kafka: str, topic: tuple[str, str]) -> None:
    name, registry = topic
    assert read_rows(kafka, name, registry, len(LEGS)) == [vars(each) for each in LEGS]
    with SchemaRegistryClient({"url": registry}) as client:
        assert client.get_subjects() == [f"{name}-value"]


def test_a_consumer_reads_rows_of_each_schema(kafka: str, up: Callable[..., Up], tmp_path: Path) -> None:
    namespace = f"t{uuid.uuid4().hex[:12]}"
    server = up(tmp_path / "data", f"kafka://{kafka}/{namespace}", "--http-port", "0")
    with duramen.connect(f"127.0.0.1:{server.said['port']}") as db:
        legs = db.create_table("legs", row=AvroLeg, key=("carrier", "flight"), partitions=1)
        legs.put_many(LEGS)
        gated = legs.alter(row=GatedLeg)
        gated.put(GatedLeg("UA", 100, None, "B7"))
        assert legs.get("UA", 100) == AvroLeg("UA", 100, None)
        assert gated.get("UA", 1) == GatedLeg("UA", 1, "N1")
    registry = f"http://127.0.0.1:{server.said['http_port']}"
    found = read_rows(kafka, f"{namespace}.legs", registry, len(LEGS) + 1)
    assert found == [*map(vars, LEGS), vars(GatedLeg("UA", 100, None, "B7"))]
    with SchemaRegistryClient({"url": registry}) as client:
        assert client.get_versions(f"{namespace}.legs-value") == [1, 2]


@pytest.mark.skipif(not kcat_reads_avro(), reason="needs a kcat that was built with Avro: kcat -V names it")
def test_kcat_prints_its_rows(kafka: str, topic: tuple[str, str]) -> None:
    name, registry = topic
    asked = ["kcat", "-b", kafka, "-C", "-q", "-e", "-t", name, "-s", "value=avro", "-r", registry]
    printed = subprocess.run(asked, capture_output=True, text=True, timeout=patience_s(DEADLINE_S), check=True).stdout
    assert [json.loads(line)["flight"] for line in printed.splitlines()] == [each.flight for each in LEGS]
