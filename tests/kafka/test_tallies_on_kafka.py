"""`duramen audit data` over a log on Kafka: equal numbers in the log and in every replica, by whomever written."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import wait_until
from kit.kafka.foreign import Record, end_of, make_topic, producer, send
from kit.kafka.up_on_kafka import Up

pytestmark = pytest.mark.kafka

_MINUTE_MS = 60_000


def level(server: Up, table: str, end: int) -> bool:
    (lag,) = server.documents("admin", "lag", table)
    return bool(lag["applied"] == end - 1)


def audited(server: Up, table: str) -> list[dict[str, Any]]:
    """What the log holds of each minute, where the replica there has the same."""
    rows = server.documents("audit", "data", table, "--since", "1h")
    assert {row["verdict"] for row in rows} == {"equal"}, rows
    for row in rows:
        assert [each["counted"] for each in row["replicas"]] == [row["written"]]
    return [row["written"] | {"minute_ms": row["minute_ms"]} for row in rows]


def test_what_others_wrote_counts_alike_at_two_nodes(kafka: str, tmp_path: Path, up: Callable[..., Up]) -> None:
    """Puts, deletes and void records of others, between ours; their times rise and fall over the minutes."""
    topic = make_topic(kafka)
    one = up(tmp_path / "one", f"kafka://{kafka}/t{uuid.uuid4().hex[:12]}")
    one.says("table", "create", "orders", "--over", topic)
    sender = producer(kafka, linger_ms=0)
    one.says("put", "orders", "ours", "first")
    (begun,) = one.documents("get", "orders", "ours", "--level", "strong")
    assert begun["value"] == "first"
    now_ms = int(one.documents("audit", "data", "orders")[0]["minute_ms"]) + 30_000
    for number in range(60):
        at_ms = now_ms + (number % 3 - 1) * _MINUTE_MS
        value = None if number % 7 == 0 else b"v%d" % number
        key = None if number % 11 == 0 else b"k%d" % (number % 5)
        send(sender, topic, [Record(key, value, timestamp_ms=at_ms)])
        if number % 20 == 0:
            one.says("put", "orders", f"ours{number}", "v")
    send(sender, topic, [Record(b"k%d" % number, b"v" * 100, timestamp_ms=now_ms) for number in range(5000)])
    _, end = end_of(kafka, topic)
    assert end == 1 + 60 + 3 + 5000
    wait_until(lambda: level(one, "orders", end))
    seen = audited(one, "orders")
    assert sum(each["offsets"] for each in seen) == end
    assert len(seen) > 1, "several minutes"

    one.kill9()
    one = up(tmp_path / "one", one.url)
    wait_until(lambda: level(one, "orders", end))
    assert audited(one, "orders") == seen

    other = up(tmp_path / "other", f"kafka://{kafka}/t{uuid.uuid4().hex[:12]}")
    other.says("table", "create", "theirs", "--over", topic)
    wait_until(lambda: level(other, "theirs", end))
    assert audited(other, "theirs") == seen


def test_a_topic_that_kafka_compacts_is_not_compared(kafka: str, tmp_path: Path, up: Callable[..., Up]) -> None:
    topic = make_topic(kafka, cleanup_policy="compact")
    server = up(tmp_path / "data", f"kafka://{kafka}/t{uuid.uuid4().hex[:12]}")
    server.says("table", "create", "orders", "--over", topic)
    send(producer(kafka), topic, [Record(b"k", b"v")])
    wait_until(lambda: level(server, "orders", 1))
    (row,) = server.documents("audit", "data", "orders")
    assert row["verdict"] == "not compared"
    assert "compacts" in row["reason"]
