"""The compose file with Kafka: its brokers are one cluster that may lose one of three, and our roles find it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.client.command_line import parsed
from kit.deadlines import patience_s
from kit.kafka.kafka_brokers import StartBrokers
from kit.lock_file import pins

from deploy.kafka.brokers import Brokers
from deploy.kafka.properties import Listeners, server_properties
from duramen.server.settings.models import ROLES
from log_tier.kafka.cluster.kafka_address import KafkaAddress

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"

# What differs from broker to broker, or from a container to a process on loopback.
OF_ONE_BROKER = {"node.id", "advertised.listeners"}
OF_A_PLACE = {"listeners", "listener.security.protocol.map", "log.dirs", "controller.quorum.voters"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "compose-kafka.yaml").read_text())
    return document


def of_kafka(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in compose["services"].items() if each["image"].startswith("apache/kafka:")}


def of_duramen(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in compose["services"].items() if each["image"] == "duramen"}


def properties(service: dict[str, Any]) -> dict[str, str]:
    """The server.properties that the image makes of its environment."""
    return {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in service["environment"].items()
        if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS"
    }


def test_there_are_three_brokers_a_node_and_a_router(compose: dict[str, Any]) -> None:
    assert set(of_kafka(compose)) == {"kafka1", "kafka2", "kafka3"}
    assert sorted(each["command"][1] for each in of_duramen(compose).values()) == ["node", "router"]
    assert len(compose["services"]) == 5


def test_the_image_is_of_the_kafka_that_our_tests_run(compose: dict[str, Any]) -> None:
    (image,) = {each["image"] for each in of_kafka(compose).values()}
    (version,) = re.findall(r"<kafka\.version>(.*)</kafka\.version>", (DEPLOY / "kafka" / "pom.xml").read_text())
    assert image == f"apache/kafka:{version}"


def test_the_brokers_are_one_cluster(compose: dict[str, Any]) -> None:
    brokers = of_kafka(compose)
    assert len({each["environment"]["CLUSTER_ID"] for each in brokers.values()}) == 1
    voters = ",".join(f"{properties(each)['node.id']}@{name}:9093" for name, each in brokers.items())
    shared = []
    for name, each in brokers.items():
        settings = properties(each)
        assert settings["controller.quorum.voters"] == voters
        assert settings["listeners"] == "PLAINTEXT://:9092,CONTROLLER://:9093"
        assert settings["advertised.listeners"] == f"PLAINTEXT://{name}:9092"
        assert each["volumes"] == [f"{name}:{settings['log.dirs']}"]
        assert name in compose["volumes"]
        assert each["healthcheck"]["test"][-2:] == ["--bootstrap-server", "localhost:9092"]
        shared.append({key: value for key, value in settings.items() if key not in OF_ONE_BROKER})
    assert shared[0] == shared[1] == shared[2]
    assert {properties(each)["node.id"] for each in brokers.values()} == {"1", "2", "3"}


def test_the_brokers_may_lose_one_like_those_of_our_tests(compose: dict[str, Any]) -> None:
    text = server_properties(1, [Listeners(1, 4), Listeners(2, 5), Listeners(3, 6)], Path("/data"), {})
    tested = dict(line.split("=", 1) for line in text.splitlines())
    given = properties(of_kafka(compose)["kafka1"])
    assert given["default.replication.factor"] == "3"
    assert given["min.insync.replicas"] == "2"
    assert given["unclean.leader.election.enable"] == "false"
    same = given.keys() - OF_ONE_BROKER - OF_A_PLACE
    assert {key: given[key] for key in same} == {key: tested.get(key) for key in same}


def test_our_roles_find_every_broker(compose: dict[str, Any]) -> None:
    brokers = of_kafka(compose)
    for name, service in of_duramen(compose).items():
        arguments = parsed(service["command"])
        address = KafkaAddress.parse(arguments["log"])
        assert address.bootstrap == ",".join(f"{each}:9092" for each in brokers)
        assert (address.replication, address.min_insync) == (3, 2)
        assert arguments["host"] == "0.0.0.0"
        assert set(service["depends_on"]) == set(brokers)
        assert service["healthcheck"]["test"][:2] == ["CMD", "duramen"]
        assert parsed(service["healthcheck"]["test"][2:])["at"] == f"127.0.0.1:{arguments['port']}", name
        assert {volume.split(":")[0] for volume in service.get("volumes", ())} <= set(compose["volumes"])
        role: Any = ROLES[service["command"][1]]
        for variable in service.get("environment", {}):
            assert variable.removeprefix(str(role.model_config["env_prefix"])).lower() in role.model_fields, variable
    logs = {parsed(each["command"])["log"] for each in of_duramen(compose).values()}
    assert len(logs) == 1


def test_our_image_has_the_client_of_kafka() -> None:
    lock = (DEPLOY.parent / "requirements" / "runtime.lock").read_text()
    assert "confluent-kafka" in {pin.name for pin in pins(lock)}


@pytest.mark.kafka
def test_kafka_knows_every_setting(compose: dict[str, Any], start_brokers: StartBrokers) -> None:
    """Kafka passes over a name that it does not know; so it is asked what it took."""
    given = {
        name: value
        for name, value in properties(of_kafka(compose)["kafka1"]).items()
        if name not in OF_ONE_BROKER | OF_A_PLACE
    }
    taken = settings_of(start_brokers(1, settings=given))
    assert {name: taken.get(name) for name in given} == given


def settings_of(brokers: Brokers) -> dict[str, str | None]:
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

    client = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})
    (answer,) = client.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    return {name: entry.value for name, entry in answer.result(timeout=patience_s(30)).items()}
