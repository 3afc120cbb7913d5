"""The brokers that other tests rely on: they keep what they took, fail over, and never outlive us."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s, wait_until
from kit.kafka.kafka_brokers import StartBrokers

from deploy.kafka.brokers import BrokerFailed, Brokers, missing
from deploy.kafka.ports import ReservedPorts, is_free
from deploy.kafka.properties import Listeners, server_properties

TOP = Path(__file__).resolve().parents[2]
# Far above what a fail-over takes (3 s and an election), for a machine that does much else.
FAILED_OVER_S = 30.0


def create(bootstrap: str, topic: str, *, partitions: int = 1, replicas: int = 1) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    (done,) = client.create_topics([NewTopic(topic, partitions, replicas)], request_timeout=30).values()
    done.result(timeout=patience_s(60))


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    """Acknowledged by every replica that is in sync, or an error."""
    from confluent_kafka import Producer

    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failures == []


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        end = time.monotonic() + 60
        while len(values) < count and time.monotonic() < end:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                value = message.value()
                assert isinstance(value, bytes)
                values.append(value)
        return values
    finally:
        consumer.close()


def is_gone(pid: int) -> bool:
    """Ended; a process whose parent has not heard of it yet counts."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# --- without a broker


def test_three_brokers_can_lose_one_and_one_needs_nobody() -> None:
    def settings(count: int) -> dict[str, str]:
        cluster = [Listeners(broker=10 + n, controller=20 + n) for n in range(count)]
        text = server_properties(1, cluster, Path("/data"), {"log.retention.ms": "1000"})
        return dict(line.split("=", 1) for line in text.splitlines())

    one, three = settings(1), settings(3)
    assert (one["default.replication.factor"], one["min.insync.replicas"]) == ("1", "1")
    assert (three["default.replication.factor"], three["min.insync.replicas"]) == ("3", "2")
    assert three["offsets.topic.replication.factor"] == three["transaction.state.log.replication.factor"] == "3"
    assert three["transaction.state.log.min.isr"] == "2"
    assert three["unclean.leader.election.enable"] == three["auto.create.topics.enable"] == "false"
    assert three["controller.quorum.voters"] == "1@127.0.0.1:20,2@127.0.0.1:21,3@127.0.0.1:22"
    assert three["listeners"] == "PLAINTEXT://127.0.0.1:10,CONTROLLER://127.0.0.1:20"
    assert three["log.retention.ms"] == "1000"


def test_the_callers_settings_win() -> None:
    text = server_properties(1, [Listeners(1, 2)], Path("/data"), {"auto.create.topics.enable": "true"})
    assert "auto.create.topics.enable=true\n" in text
    assert text.count("auto.create.topics.enable") == 1


def test_the_callers_listeners_are_added() -> None:
    text = server_properties(1, [Listeners(1, 2)], Path("/data"), {"listeners": "SSL://127.0.0.1:3"})
    assert "\nlisteners=PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:3,CONTROLLER://127.0.0.1:2\n" in text
    assert "advertised.listeners=PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:3\n" in text


def test_reserved_ports_are_free_and_nobody_elses() -> None:
    with ReservedPorts(50) as mine, ReservedPorts(50) as yours:
        assert len(set(mine.numbers) | set(yours.numbers)) == 100
        # Outgoing connections take theirs from 32768 up; ours must not be among those.
        assert max(mine.numbers) < 32768
        assert all(is_free(port) for port in mine.numbers)


def test_a_machine_without_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    reason = missing()
    assert reason is not None
    assert "apt-get install openjdk-17-jre-headless maven, then make test-kafka" in reason
    with pytest.raises(BrokerFailed, match="openjdk-17"):
        Brokers(1, tmp_path).start()
    for tool in ("bash", "dirname"):
        found = shutil.which(tool, path=os.defpath)
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    fetch = subprocess.run([tmp_path / "bash", TOP / "deploy" / "kafka" / "fetch"], capture_output=True, text=True)
    assert fetch.returncode == 3
    assert "apt-get install openjdk-17-jre-headless maven" in fetch.stderr


# --- one broker


@pytest.mark.kafka
def test_what_is_produced_is_consumed(kafka: str, kafka_url: str) -> None:
    url = urllib.parse.urlsplit(kafka_url)
    assert url.netloc == kafka
    topic = f"{url.path.removeprefix('/')}.flights"
    create(kafka, topic)
    produce(kafka, topic, [b"one", b"two"])
    assert consume(kafka, topic, 2) == [b"one", b"two"]


@pytest.mark.kafka
def test_nobody_makes_a_topic_by_writing_to_it(kafka: str) -> None:
    from confluent_kafka import KafkaError, Producer

    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": kafka, "topic.metadata.propagation.max.ms": 1000})
    producer.produce(f"nobody-made-{uuid.uuid4().hex}", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    (error,) = errors
    assert error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


@pytest.mark.kafka
def test_a_killed_broker_has_its_data_when_it_comes_back(start_brokers: StartBrokers) -> None:
    brokers = start_brokers()
    create(brokers.bootstrap, "kept")
    produce(brokers.bootstrap, "kept", [b"before"])
    address, pid = brokers.bootstrap, brokers.pid(1)
    brokers.kill(1)
    assert is_gone(pid)
    assert brokers.running == []
    brokers.restart(1)
    brokers.wait_ready()
    assert brokers.bootstrap == address
    produce(address, "kept", [b"after"])
    assert consume(address, "kept", 2) == [b"before", b"after"]


@pytest.mark.kafka
def test_a_folder_is_started_with_what_is_in_it(tmp_path: Path) -> None:
    with Brokers(1, tmp_path) as brokers:
        create(brokers.bootstrap, "kept")
        produce(brokers.bootstrap, "kept", [b"before"])
    with Brokers(1, tmp_path) as again:
        assert consume(again.bootstrap, "kept", 1) == [b"before"]
    with pytest.raises(BrokerFailed, match=r"lacks \[2, 3\]"):
        Brokers(3, tmp_path).start()


@pytest.mark.kafka
def test_a_broker_that_refuses_its_settings_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(BrokerFailed, match=r"min\.insync\.replicas"),
        Brokers(1, tmp_path, settings={"min.insync.replicas": "many"}),
    ):
        pass


@pytest.mark.kafka
def test_a_broker_does_not_end_with_the_thread_that_started_it(tmp_path: Path) -> None:
    brokers = Brokers(1, tmp_path)
    try:
        thread = threading.Thread(target=brokers.start)
        thread.start()
        thread.join()
        brokers.wait_ready()
        create(brokers.bootstrap, "here")
        assert brokers.pid(1) is not None
    finally:
        brokers.stop(grace_s=0)


@pytest.mark.kafka
@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
def test_no_broker_outlives_a_process_that_is_killed(tmp_path: Path, paused: bool) -> None:
    script = f"""
import pathlib, time
from deploy.kafka.brokers import Brokers
brokers = Brokers(1, pathlib.Path({str(tmp_path)!r}))
brokers.start()
brokers.wait_ready()
if {paused}: brokers.pause(1)
print(brokers.pid(1), flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=TOP, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not is_gone(pid)
        parent.kill()
    wait_until(lambda: is_gone(pid), seconds=20)


@contextmanager
def started(*options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(TOP / "deploy" / "kafka" / "start"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.kafka
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_the_command_runs_a_broker_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with started("--port", "0", "--data", str(tmp_path), "--flush-every-message") as process:
        assert process.stdout is not None
        bootstrap = process.stdout.readline().strip()
        create(bootstrap, "here")
        process.send_signal(number)
        assert process.wait(timeout=patience_s(30)) == 0
    assert is_free(int(bootstrap.rpartition(":")[2]))
    properties = (tmp_path / "1" / "broker-1.properties").read_text()
    assert "log.flush.interval.messages=1\n" in properties
    assert f"advertised.listeners=PLAINTEXT://{bootstrap}\n" in properties


@pytest.mark.kafka
def test_the_command_says_which_ports_it_needs(kafka: str, tmp_path: Path) -> None:
    taken = kafka.rpartition(":")[2]
    with started("--port", taken, "--data", str(tmp_path)) as process:
        assert process.stderr is not None
        assert process.wait(timeout=patience_s(30)) == 1
        assert f"taken are [{taken}" in process.stderr.read()


# --- three brokers


@pytest.mark.kafka
def test_three_brokers_keep_a_topic_through_a_pause_and_a_kill(three_brokers: Callable[..., Brokers]) -> None:
    brokers = three_brokers()
    create(brokers.bootstrap, "replicated", replicas=3)
    produce(brokers.bootstrap, "replicated", [b"one"])

    first = brokers.leader_of("replicated", 0)
    assert first is not None
    brokers.pause(first)
    assert first not in brokers.running
    wait_until(lambda: brokers.leader_of("replicated", 0) not in (None, first), seconds=FAILED_OVER_S)
    produce(brokers.bootstrap, "replicated", [b"two"])
    brokers.resume(first)

    # Its followers catch up before another is lost: two of three must be there for a record to be taken.
    second = brokers.leader_of("replicated", 0)
    assert second is not None
    wait_until(lambda: len(in_sync(brokers, "replicated")) == 3, seconds=FAILED_OVER_S)
    brokers.kill(second)
    wait_until(lambda: brokers.leader_of("replicated", 0) not in (None, second), seconds=FAILED_OVER_S)
    produce(brokers.bootstrap, "replicated", [b"three"])
    assert consume(brokers.bootstrap, "replicated", 3) == [b"one", b"two", b"three"]


def known(brokers: Brokers) -> set[int]:
    """The brokers that a running one takes for running."""
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": brokers.address(brokers.running[0]), "log_level": 0})
    return set(client.list_topics(timeout=10).brokers)


def in_sync(brokers: Brokers, topic: str) -> set[int]:
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})
    return set(client.list_topics(topic, timeout=10).topics[topic].partitions[0].isrs)


@pytest.mark.kafka
@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_another_controller_takes_over(three_brokers: Callable[..., Brokers], fault: str) -> None:
    brokers = three_brokers()
    first = brokers.controller()
    assert first in brokers.numbers
    getattr(brokers, fault)(first)
    wait_until(lambda: brokers.controller() not in (None, first), seconds=FAILED_OVER_S)
    # Until the lost one is fenced, an answer to "who is the controller?" may name it, and a client waits for it.
    wait_until(lambda: known(brokers) == set(brokers.running), seconds=FAILED_OVER_S)
    create(",".join(map(brokers.address, brokers.running)), "after", replicas=2)

    def is_led() -> bool:
        with suppress(KeyError):  # no broker that was asked knows of the topic yet
            return brokers.leader_of("after", 0) in brokers.running
        return False

    wait_until(is_led, seconds=FAILED_OVER_S)


@pytest.mark.kafka
def test_all_brokers_killed_come_back_with_everything(three_brokers: Callable[..., Brokers]) -> None:
    brokers = three_brokers()
    create(brokers.bootstrap, "replicated", replicas=3)
    produce(brokers.bootstrap, "replicated", [b"before"])
    for number in brokers.numbers:
        brokers.kill(number)
    for number in brokers.numbers:
        brokers.restart(number)
    brokers.wait_ready()
    wait_until(lambda: brokers.leader_of("replicated", 0) is not None, seconds=FAILED_OVER_S)
    produce(brokers.bootstrap, "replicated", [b"after"])
    assert consume(brokers.bootstrap, "replicated", 2) == [b"before", b"after"]
