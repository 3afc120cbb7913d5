"""`duramen audit data`: equal at every tier of a cluster of processes, and a replica that lost a batch is found."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import wait_until

from log_tier.embedded import EmbeddedLog
from log_tier.model.batch_header import read_header, split_batches
from log_tier.model.identifiers import FIRST, Offset
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

pytestmark = pytest.mark.embedded_log_only

RECORDS = 40


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three nodes that hold a table `orders`: one partition with three replicas, in 40 batches of one record."""
    made = ClusterProcess(tmp_path / "data")
    try:
        with made.connect() as database:
            table = database.create_table("orders", partitions=1, replicas=3)
            for number in range(RECORDS):
                table.put(b"o%d" % (number % 7), b"v%d" % number)
        made.wait_ready("orders")
        yield made
    finally:
        made.close()


def applied_everywhere(rows: list[dict[str, Any]]) -> bool:
    return all(
        sum(each["counted"]["offsets"] for row in rows for each in row["replicas"] if each["node"] == node) == RECORDS
        for node in ("n1", "n2", "n3")
    )


def audited(cluster: ClusterProcess, code: int) -> list[dict[str, Any]]:
    shown = cluster.run("audit", "data", "orders", "--json", code=code)
    return [json.loads(line) for line in shown.splitlines()]


def noted_in(cluster: ClusterProcess) -> list[dict[str, Any]]:
    """What the servers know of exports and sessions."""
    shown = cluster.run("admin", "partitions", "orders", "--json")
    return [audited for line in shown.splitlines() for audited in json.loads(line)["audits"]]


def kinds_of_troubles(cluster: ClusterProcess) -> set[str]:
    return {each["kind"] for each in json.loads(cluster.run("status", "--json", code=None))["troubles"]}


def test_every_replica_has_the_numbers_of_the_log(orders: ClusterProcess) -> None:
    rows = audited(orders, 0)
    assert {row["verdict"] for row in rows} == {"equal"}
    assert sum(row["written"]["offsets"] for row in rows) == RECORDS
    assert applied_everywhere(rows)
    for row in rows:
        assert [each["counted"] for each in row["replicas"]] == [row["written"]] * 3
    shown = orders.run("audit", "data", "orders/0")
    for row in rows:
        number = row["written"]["offsets"]
        assert f" written {number} applied {number} ×3\n" in shown
    orders.kill9("n2")
    orders.wait_nodes("alive", "n2")
    orders.wait_ready("orders")
    again = audited(orders, 0)
    assert [row["replicas"][1]["counted"] for row in again] == [row["written"] for row in rows]


def test_what_subscriptions_were_given_is_what_the_log_holds(orders: ClusterProcess) -> None:
    with orders.connect() as database:
        table = database.table("orders")
        with closing(table.watch(start="earliest")) as changes, closing(table.watch(start="now")) as later:
            token = table.put(b"last", b"v").token
            assert [change.offset for change in islice(changes, RECORDS + 1)][-1] == RECORDS
            assert next(iter(later)).token == token
            rows = audited(orders, 0)
            given = [each for row in rows for each in row["subscriptions"]]
            assert {each["verdict"] for each in given} == {"equal"}
            assert sorted(
                sum(each["counted"]["offsets"] for each in given if (each["node"], each["name"]) == who)
                for who in {(each["node"], each["name"]) for each in given}
            ) == [1, RECORDS + 1]
            assert " delivered " in orders.run("audit", "data", "orders")
    assert not any(row.get("subscriptions") for row in audited(orders, 0))


def test_what_a_session_was_acknowledged_is_in_the_log(orders: ClusterProcess, tmp_path: Path) -> None:
    said = tmp_path / "acknowledged.json"
    with orders.connect() as database:
        table = database.table("orders")
        for number in range(20):
            table.put(b"s%d" % number, b"v")
        with table.writer("a stream") as writer:
            for number in range(50):
                writer.put_rows([(b"w%d" % number, b"v")])
        said.write_text(database.acknowledged())

    def asked(code: int) -> list[dict[str, Any]]:
        shown = orders.run("audit", "data", "orders", "--session", str(said), "--json", code=code)
        return [each for each in map(json.loads, shown.splitlines()) if each.get("acknowledged")]

    rows = asked(0)
    assert sum(row["acknowledged"][0]["counted"]["offsets"] for row in rows) == 70
    assert {row["verdict"] for row in rows} == {"equal"}
    assert " acknowledged " in orders.run("audit", "data", "orders", "--session", str(said))

    (noted,) = noted_in(orders)
    assert (noted["tier"], noted["rows"], noted["verdict"], noted["reason"]) == ("session", 70, "equal", "")
    assert noted["until"] == RECORDS + 69
    shown = orders.run("audit", "data", "orders")
    assert f"orders/0 acknowledged 70 up to offset {RECORDS + 69}, checked " in shown
    asked(0)
    assert noted_in(orders)[0]["checked_ms"] > noted["checked_ms"], "audited again"

    document = json.loads(said.read_text())
    document["runs"][-1]["records"] += 3
    said.write_text(json.dumps(document))
    (wrong,) = [row for row in asked(1) if row["verdict"] == "different"]
    assert "were acknowledged and are not in the log" in wrong["acknowledged"][0]["reason"]
    (noted,) = noted_in(orders)
    assert (noted["tier"], noted["rows"], noted["verdict"]) == ("session", 73, "different")
    assert "were acknowledged and are not in the log" in noted["reason"]
    wait_until(lambda: "audit_different" in kinds_of_troubles(orders), "the server says that a session differs")
    assert orders.run("audit", "data", "orders", "--session", str(said), "--forget") == ""
    assert noted_in(orders) == []
    assert "  different: " not in orders.run("audit", "data", "orders")
    said.write_text("{}")
    assert asked(2) == []


def test_replicas_of_a_snapshot_and_of_a_copy_have_counted_all(orders: ClusterProcess) -> None:
    """The count goes on with the snapshot's, and with the copy's: it does not begin anew."""
    with orders.connect() as database:
        table = database.table("orders")
        orders.run("admin", "snapshot", "orders")
        for number in range(RECORDS):
            table.put(b"later%d" % number, b"v")
    orders.wait_ready("orders")
    (snapshot,) = [json.loads(line) for line in orders.run("admin", "snapshots", "orders", "--json").splitlines()]
    taker = snapshot["node"]
    other = next(node for node in ("n1", "n2", "n3") if node != taker)
    orders.run("admin", "restore", taker, "--source", "snapshot")
    orders.run("admin", "restore", other, "--source", "peer")
    orders.wait_ready("orders")
    rows = audited(orders, 0)
    for node in ("n1", "n2", "n3"):
        counted = [each["counted"] for row in rows for each in row["replicas"] if each["node"] == node]
        assert sum(each["offsets"] for each in counted) == 2 * RECORDS, f"{node}: {counted}"
        assert counted[0]["first"] == 0


def test_a_replica_that_lost_a_batch_is_found_with_its_offset(orders: ClusterProcess, tmp_path: Path) -> None:
    lost = Offset(17)

    def plant() -> None:
        log = tmp_path / "log"
        shutil.copytree(orders.folder / "log", log)
        table, made = asyncio.run(folded_without(lost, log, tmp_path / "planted"))
        index = orders.folder / "nodes" / "n2" / "index" / table / "0"
        shutil.rmtree(index)
        shutil.move(made, index)

    orders.kill9("n2", before_restart=plant)
    orders.wait_nodes("alive", "n2")
    orders.wait_ready("orders")
    rows = audited(orders, 1)
    (row,) = [row for row in rows if row["verdict"] == "different"]
    wrong = {each["node"]: each for each in row["replicas"]}["n2"]
    assert (wrong["verdict"], wrong["differs_from"], wrong["differs_to"]) == ("different", lost, lost)
    assert wrong["counted"]["offsets"] == row["written"]["offsets"] - 1
    assert {each["verdict"] for each in row["replicas"] if each["node"] != "n2"} == {"equal"}
    shown = orders.run("audit", "data", "orders", code=1)
    assert f"  n2: offsets {lost} to {lost} are in the log and were not folded here\n" in shown


async def folded_without(lost: Offset, log: Path, folder: Path) -> tuple[str, Path]:
    """The id of the table `orders`, and an index of all that a log holds of it but one batch."""
    async with await EmbeddedLog.open(log) as opened:
        (topic,) = [each for each in await opened.topics() if each.name == "orders"]
        partition = topic.partition(0)
        index = LmdbIndex.open(folder, partition=partition)
        async for chunk in opened.read(partition, FIRST, follow=False):
            for batch in split_batches(chunk.data):
                if read_header(batch).base_offset != lost:
                    index.apply(batch)
        index.close()
    return topic.id, folder
