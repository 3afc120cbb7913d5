"""`duramen up --log kafka://…` as a process: what it says, what it shows, and that its folder is only an index."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s, wait_until
from kit.kafka.foreign import DEADLINE_S, Record, end_of, make_topic, producer, send
from kit.kafka.up_on_kafka import Up, first_line

from log_tier.kafka.records.header import HEADER_NAME, pack_header
from log_tier.model.partitioner import partition_of
from log_tier.model.record import PLAIN_PUT

pytestmark = pytest.mark.kafka


def test_it_serves_over_its_command_line(kafka: str, tmp_path: Path, up: Callable[..., Up]) -> None:
    namespace = f"t{uuid.uuid4().hex[:12]}"
    server = up(tmp_path / "data", f"kafka://{kafka}/{namespace}?client.id=not-to-be-shown")
    assert server.said["log"] == f"kafka://{kafka}/{namespace}"
    assert "not-to-be-shown" not in json.dumps(server.said)
    server.says("table", "create", "flights", "--partitions", "2")
    for number in range(5):
        server.says("put", "flights", f"UA{number}", f"gate {number}")
    keys = [b"UA%d" % number for number in range(5)]
    assert server.says("get", "flights", "UA3", "--level", "strong").strip() == "gate 3"
    scanned = server.documents("scan", "flights", "--level", "strong")
    assert [each["key"] for each in scanned] == [key.decode() for key in keys]

    # What it reports of the log is what the broker reports.
    topic = f"{namespace}.flights"
    ends = [end_of(kafka, topic, partition)[1] for partition in (0, 1)]
    assert sum(ends) == len(keys)

    def lag() -> dict[int, dict[str, Any]]:
        return {each["partition"]: each for each in server.documents("admin", "lag", "flights")}

    assert {partition: each["latest"] + 1 for partition, each in lag().items()} == dict(enumerate(ends))
    assert all(each["lag_records"] == 0 and each["applied"] == each["latest"] for each in lag().values())
    (found,) = server.documents("admin", "explain", "flights", "UA3")
    partition = partition_of(b"UA3", 2)
    assert (found["partition"], found["earliest"], found["latest"]) == (partition, 0, ends[partition] - 1)
    (replica,) = found["replicas"]
    (write,) = found["writes"]
    assert replica["applied"] == ends[partition] - 1
    assert replica["version"] == write["offset"] < ends[partition]


def test_a_watch_sees_what_others_write(kafka: str, tmp_path: Path, up: Callable[..., Up]) -> None:
    topic = make_topic(kafka)
    server = up(tmp_path / "data", f"kafka://{kafka}/t{uuid.uuid4().hex[:12]}")
    server.says("table", "create", "orders", "--over", topic)
    environment = {**os.environ, "DURAMEN_AT": f"127.0.0.1:{server.said['port']}"}
    command = [sys.executable, "-m", "duramen", "watch", "orders", "--from-start", "--json"]
    watch = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        send(producer(kafka), topic, [Record(b"k", b"by others"), Record(b"k", None)])
        seen = json.loads(first_line(watch))
        assert (seen["key"], seen["value"]) == ("k", "by others")
        assert json.loads(first_line(watch))["key"] == "k"
    finally:
        watch.kill()
        watch.communicate()


def test_its_folder_may_be_lost(kafka: str, tmp_path: Path, up: Callable[..., Up]) -> None:
    """Killed, killed with its folder, and started again: everything comes back from Kafka."""
    url = f"kafka://{kafka}/t{uuid.uuid4().hex[:12]}"
    data = tmp_path / "data"
    server = up(data, url)
    server.says("table", "create", "flights", "--partitions", "2")
    server.says("put", "flights", "UA1545", "departed")
    server.kill9()
    server = up(data, url)
    assert [table["table"] for table in server.said["tables"]] == ["flights"]
    assert server.says("get", "flights", "UA1545").strip() == "departed"
    server.says("put", "flights", "UA1546", "boarding")
    server.kill9()
    shutil.rmtree(data)
    refused = subprocess.run(
        [sys.executable, "-m", "duramen", "up", "--data", str(data), "--log", url, "--port", "0", "--json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience_s(DEADLINE_S),
        check=False,
    )
    assert refused.returncode == 1
    assert json.loads(refused.stderr.splitlines()[-1])["error"] == "node_id_taken", "it might be a second one"
    assert "--take-over" in refused.stderr
    server = up(data, url, "--take-over")
    found = server.documents("get", "flights", "UA1545", "UA1546")
    assert [each["value"] for each in found] == ["departed", "boarding"]
    server.kill9()
    assert up(data, url).says("get", "flights", "UA1546").strip() == "boarding", "it is the node now"


def test_two_folders_are_two_nodes(kafka: str, tmp_path: Path, up: Callable[..., Up]) -> None:
    """One namespace has one node n1: the second folder is refused, and the first one goes on."""
    url = f"kafka://{kafka}/t{uuid.uuid4().hex[:12]}"
    server = up(tmp_path / "one", url)
    server.says("table", "create", "flights")
    command = [sys.executable, "-m", "duramen", "up", "--data", str(tmp_path / "two"), "--log", url, "--port", "0"]
    second = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience_s(DEADLINE_S), check=False
    )
    assert second.returncode == 1
    assert "Traceback" not in second.stderr
    assert "n1" in second.stderr
    server.says("put", "flights", "UA1545", "departed")
    assert server.says("get", "flights", "UA1545", "--level", "strong").strip() == "departed"


def test_people_see_the_mistakes_of_others(kafka: str, tmp_path: Path, up: Callable[..., Up]) -> None:
    """Void records are counted in `admin partitions`; a record of a later version says what to do about it."""
    topic, later = make_topic(kafka), make_topic(kafka)
    server = up(tmp_path / "data", f"kafka://{kafka}/t{uuid.uuid4().hex[:12]}")
    server.says("table", "create", "orders", "--over", topic)
    server.says("table", "create", "later", "--over", later)
    send(producer(kafka), topic, [Record(None, b"v"), Record(b"k", b"v"), Record(b"k" * 600, b"v")])
    header = b"\x03" + pack_header(PLAIN_PUT, 0, 0, 0, 0)[1:]
    send(producer(kafka), later, [Record(b"k", b"v"), Record(b"later", b"v", [(HEADER_NAME, header)])])

    def stands() -> bool:
        found = {each["table"]: each for each in server.documents("admin", "partitions")}
        return bool(found["orders"]["void"] == 2 and found["later"]["replicas"][0]["state"] == "stopped")

    wait_until(stands)
    (orders,) = server.documents("admin", "partitions", "orders")
    assert orders["replicas"][0]["void"] == 2
    shown = server.says("admin", "partitions")
    assert "orders/0: 2 of its records are void: no table can hold them, or they do not fit its" in shown
    assert f"later/0 on n1 stopped: {later}/0 at offset 1: a record's `duramen` header has version 3" in shown
    assert "no table can hold" in server.log.read_text()
    assert server.says("get", "orders", "k").strip() == "v"
    asked = server.run("get", "later", "k", "--level", "strong")
    assert asked.returncode != 0
    assert "upgrade it here" in asked.stderr
    assert server.process.poll() is None
