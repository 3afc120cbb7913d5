"""A table's schema changes in a cluster of real processes, while others write and processes die."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import wait_until
from kit.rows.flights import Flight

import duramen

FIELDS: list[Any] = [
    ("carrier", str),
    ("flight", int),
    ("tailnum", str | None),
    ("dep_delay", float),
    ("remark", str, ""),
]


def next_class(number: int) -> type:
    """The rows of the schema that comes after so many changes."""
    return make_dataclass("Flight", [*FIELDS, *((f"more{each}", int, each) for each in range(number))])


class RowLoad:
    """Writes rows of one type, each with a key of its own, until it is stopped."""

    def __init__(self, cluster: ClusterProcess, carrier: str, row: type = Flight) -> None:
        self._cluster, self._carrier, self._row = cluster, carrier, row
        self._stop = threading.Event()
        self.numbers: list[int] = []
        """Of the rows that were acknowledged."""
        self.refused: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        with self._cluster.connect() as db:
            table: Any = db.table("rows", row=self._row)
            while not self._stop.is_set():
                number += 1
                try:
                    table.put(self._row(self._carrier, number, None, 1.5))
                    self.numbers.append(number)
                except (duramen.Unavailable, duramen.WriteUnknown, duramen.DeadlineExceeded):
                    continue  # processes die here
                except duramen.DuramenError as error:
                    self.refused.append(repr(error))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def rows_cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three nodes, each with a replica of both partitions of `rows`."""
    made = ClusterProcess(tmp_path / "data")
    try:
        with made.connect() as db:
            db.create_table("rows", row=Flight, key=("carrier", "flight"), partitions=2, replicas=3)
        made.wait_ready("rows")
        yield made
    finally:
        made.close()


def alter_until_done(cluster: ClusterProcess, row: type) -> None:
    """As a deployment does: the same change again and again, until it is through."""

    def done() -> bool:
        try:
            with cluster.connect() as db:
                db.alter_table("rows", row=row)
        except (duramen.Unavailable, duramen.DeadlineExceeded, duramen.WriteUnknown):
            return False
        return True

    wait_until(done, "the table is altered")


def check_nothing_is_lost(cluster: ClusterProcess, row: type, *loads: RowLoad) -> None:
    """Every acknowledged row is there, at every replica alike; no valid row is void."""
    for load in loads:
        assert load.refused == []
        assert load.numbers, "it wrote nothing"
    cluster.wait_ready("rows")
    with cluster.connect() as db:
        table: Any = db.table("rows", row=row)
        for number, load in enumerate(loads):
            found = {each.flight for each in table.scan(carrier=f"W{number}", level="strong")}
            assert set(load.numbers) <= found
    assert "differ" not in cluster.run("admin", "verify", "rows")


@pytest.mark.timeout(300)
def test_writers_go_on_while_processes_die(rows_cluster: ClusterProcess) -> None:
    """At each change another process dies: the log, a node, the router. The old program never stops."""
    cluster = rows_cluster
    loads = [RowLoad(cluster, "W0")]
    try:
        for number, victim in enumerate(sorted(cluster.children), 1):
            row = next_class(number)
            changing = threading.Thread(target=alter_until_done, args=(cluster, row))
            changing.start()
            cluster.kill9(victim)
            changing.join()
            if number == 1:
                loads.append(RowLoad(cluster, "W1", row))
        alter_until_done(cluster, row)
        written = [len(load.numbers) for load in loads]
        wait_until(
            lambda: all(len(load.numbers) > before for load, before in zip(loads, written, strict=True)),
            "both go on writing",
        )
    finally:
        for load in loads:
            load.stop()
    check_nothing_is_lost(cluster, row, *loads)
    with cluster.connect() as db:
        definition = db.definition("rows")
        assert definition is not None
        assert definition.number == number + 1 == len(definition.schemas)


@pytest.mark.timeout(300)
def test_a_node_that_was_away_and_two_changes_at_once(rows_cluster: ClusterProcess) -> None:
    cluster = rows_cluster
    load = RowLoad(cluster, "W0")
    ended: list[object] = []

    def alter(row: type) -> None:
        with cluster.connect() as db:
            try:
                ended.append(db.alter_table("rows", row=row, if_definition=1))
            except duramen.DuramenError as error:
                ended.append(error)

    try:
        away = min(each["node"] for each in cluster.rows("admin", "nodes"))
        cluster.pause(away)
        changing = [threading.Thread(target=alter, args=(next_class(number),)) for number in (1, 2)]
        for each in changing:
            each.start()
        for each in changing:
            each.join()
        cluster.go_on(away)
        lost = [each for each in ended if isinstance(each, duramen.CommandRejected)]
        assert (len(ended), len(lost)) == (2, 1), ended
        assert "job" in lost[0].message
    finally:
        load.stop()
    with cluster.connect() as db:
        definition = db.definition("rows")
        assert definition is not None
        assert definition.number == 2
        newest = len(definition.schemas[-1].schema.fields) - len(FIELDS)
    row = next_class(newest)
    with cluster.connect() as db:
        table: Any = db.table("rows", row=row)
        table.put(row("W0", 1_000_000, None, 0.0))
        assert table.get("W0", 1_000_000, level="strong") == row("W0", 1_000_000, None, 0.0)
    check_nothing_is_lost(cluster, row, load)
