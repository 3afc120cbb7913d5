"""Retention that overtakes a replica: it restores from a snapshot, and without one says exactly what is missing."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from kit.deadlines import wait_until
from kit.kafka.up_on_kafka import Up

pytestmark = pytest.mark.kafka


def remove_before(bootstrap: str, topic: str, offset: int) -> None:
    """What retention does, at once."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (done,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    assert done.result().low_watermark == offset


def state_of(server: Up) -> tuple[str, str]:
    """The replica's state and why."""
    (partition,) = server.documents("admin", "partitions", "flights")
    (replica,) = partition["replicas"]
    return replica["state"], replica["reason"]


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_replica_that_retention_overtook(
    kafka: str, tmp_path: Path, up: Callable[..., Up], with_snapshot: bool
) -> None:
    namespace = f"t{uuid.uuid4().hex[:12]}"
    url = f"kafka://{kafka}/{namespace}"
    server = up(tmp_path / "data", url)
    server.says("table", "create", "flights", "--partitions", "1")
    for number in range(4):
        server.says("put", "flights", f"before{number}", "1")
    if with_snapshot:
        server.says("admin", "snapshot", "flights")
    server.says("put", "flights", "behind", "1")
    server.kill9()
    # The replica falls behind, and retention removes what it would need next.
    shutil.rmtree(tmp_path / "data" / "index")
    remove_before(kafka, f"{namespace}.flights", 4)
    again = up(tmp_path / "data", url)
    if with_snapshot:
        wait_until(lambda: state_of(again)[0] == "ready")
        assert [each["key"] for each in again.documents("scan", "flights", "--level", "strong")] == [
            "before0",
            "before1",
            "before2",
            "before3",
            "behind",
        ]
        return
    wait_until(lambda: "it begins at 4, what was before is trimmed" in state_of(again)[1])
    assert state_of(again)[0] == "bootstrapping"
    done = again.run("get", "flights", "before0")
    assert done.returncode != 0, "nothing is answered as if it were all"
