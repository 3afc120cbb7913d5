"""What a kafka:// URL says, what it must not, and that no secret gets out."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_tier.kafka.cluster.kafka_address import KafkaAddress, check_kafka_name
from log_tier.model.errors import InvalidName, InvalidRequest


def parse(url: str, **environment: str) -> KafkaAddress:
    return KafkaAddress.parse(url, environment=environment)


def test_brokers_namespace_and_defaults() -> None:
    address = parse("kafka://b1:9093,b2")
    assert (address.bootstrap, address.namespace) == ("b1:9093,b2:9092", "duramen")
    assert (address.replication, address.min_insync, address.properties) == (None, None, {})
    assert address.topic_name("flights") == "duramen.flights"
    assert address.own_name("duramen.flights") == "flights"
    assert address.own_name("orders") is None


def test_what_is_asked_for() -> None:
    address = parse("kafka://b1/staging?replication=3&min_insync=2&security.protocol=SASL_SSL&sasl.mechanism=PLAIN")
    assert (address.namespace, address.replication, address.min_insync) == ("staging", 3, 2)
    assert address.properties == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    client = address.client({"acks": "all"}, defaults={"fetch.wait.max.ms": 50})
    assert client["bootstrap.servers"] == "b1:9092"
    assert (client["acks"], client["fetch.wait.max.ms"], client["sasl.mechanism"]) == ("all", 50, "PLAIN")


def test_the_url_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("# secrets\nsasl.password = from=file\nsasl.username=file\n\nsecurity.protocol=SASL_SSL\n")
    address = parse(
        f"kafka://b1?config={file}&security.protocol=SSL",
        DURAMEN_KAFKA_SASL_USERNAME="environment",
        OTHER="x",
    )
    assert address.properties == {
        "sasl.password": "from=file",
        "sasl.username": "environment",
        "security.protocol": "SSL",
    }


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("kafka:///x", "names no Kafka log"),
        ("grpc://b1", "names no Kafka log"),
        ("kafka://user:secret@b1", "no user and password"),
        ("kafka://b1:x", "no host:port"),
        ("kafka://b1?replication=0", "no number from 1 on"),
        ("kafka://b1?min_insync=two", "no number from 1 on"),
        ("kafka://b1?acks=1", "cannot be set here: an acknowledged write"),
        ("kafka://b1?linger.ms=5", "must not be cut"),
        ("kafka://b1?group.id=x", "consumer groups"),
        ("kafka://b1?config=/nowhere/at/all", "cannot be read"),
        pytest.param(f"kafka://b1?replication={'9' * 5000}", "no number from 1 on", id="many digits"),
        ("kafka://[b1,b2/ns", "special character"),
    ],
)
def test_what_cannot_be(url: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as caught:
        parse(url)
    assert "secret" not in caught.value.message


def test_a_namespace_is_a_name() -> None:
    with pytest.raises(InvalidName, match="namespace"):
        parse("kafka://b1/a/b")


def test_a_file_with_a_line_that_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("a=b\nsasl.password\n")
    with pytest.raises(InvalidRequest, match="line 2"):
        parse(f"kafka://b1?config={file}")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_bytes(b"sasl.password=\xffsecret\n")
    with pytest.raises(InvalidRequest, match="no text: invalid start byte at byte 14") as caught:
        parse(f"kafka://b1?config={file}")
    assert "secret" not in caught.value.message


def test_the_text_of_an_address_has_no_settings() -> None:
    assert str(parse("kafka://b1/x?sasl.password=secret")) == "kafka://b1:9092/x"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "\x00", "é", "orders\n", "x" * 250])
def test_names_that_no_topic_in_kafka_has(name: str) -> None:
    with pytest.raises(InvalidRequest, match="no topic in Kafka is named"):
        check_kafka_name(name)


@pytest.mark.parametrize("name", ["orders", "...", "a.b-c_D9", "x" * 249])
def test_names_that_one_may_have(name: str) -> None:
    assert check_kafka_name(name) == name
