"""An index comes to a table in a cluster of real processes, while its keys change and processes are killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import wait_until
from kit.rows.flights import Flight

import duramen

ROWS = 3000
TAILS = 7


class ChangingRows:
    """Changes and deletes rows of one carrier, each in its turn, until it is stopped."""

    def __init__(self, cluster: ClusterProcess) -> None:
        self._cluster, self._stop = cluster, threading.Event()
        self.rows: dict[int, str | None] = {}
        """By flight: the tail number that was acknowledged last; None: deleted. Of one whose fate is unknown there is
        none."""
        self.changes = 0
        self.refused: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        turn = 0
        with self._cluster.connect() as db:
            table: Any = db.table("rows", row=Flight)
            while not self._stop.is_set():
                turn += 1
                number = turn * 7919 % ROWS
                tail = None if turn % 5 == 0 else f"N{turn % TAILS}"
                self.rows.pop(number, None)
                try:
                    if tail is None:
                        table.delete("UA", number)
                    else:
                        table.put(Flight("UA", number, tail, float(turn)))
                    self.rows[number] = tail
                    self.changes += 1
                except (duramen.Unavailable, duramen.WriteUnknown, duramen.DeadlineExceeded):
                    continue  # processes die here
                except duramen.DuramenError as error:
                    self.refused.append(repr(error))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def indexed_cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three nodes, each with a replica of both partitions of `rows`, which has rows."""
    made = ClusterProcess(tmp_path / "data")
    try:
        with made.connect() as db:
            table = db.create_table("rows", row=Flight, key=("carrier", "flight"), partitions=2, replicas=3)
            table.put_many(Flight("UA", number, f"N{number % TAILS}", 0.0) for number in range(ROWS))
        made.wait_ready("rows")
        yield made
    finally:
        made.close()


def until_done(cluster: ClusterProcess, change: Any) -> None:
    """As a deployment does: the same change again and again, until it is through."""

    def done() -> bool:
        try:
            with cluster.connect() as db:
                change(db.table("rows", row=Flight))
        except (duramen.Unavailable, duramen.DeadlineExceeded, duramen.WriteUnknown):
            return False
        return True

    wait_until(done, "the index is changed")


def check_finds(cluster: ClusterProcess, rows: dict[int, str | None]) -> None:
    """What a find sees is what a scan sees, and what was acknowledged."""
    with cluster.connect() as db:
        table: Any = db.table("rows", row=Flight)
        scanned = {each.flight: each.tailnum for each in table.scan(level="strong")}
        found: dict[int, str | None] = {}
        for tail in range(TAILS):
            found.update((each.flight, each.tailnum) for each in table.find(tailnum=f"N{tail}", level="strong"))
        assert found == scanned
        assert {number: scanned.get(number) for number in rows} == rows


@pytest.mark.timeout(300)
def test_processes_die_while_an_index_is_built_and_keys_change(indexed_cluster: ClusterProcess) -> None:
    """The log, a node, the router, each in another build."""
    cluster = indexed_cluster
    load = ChangingRows(cluster)
    try:
        for victim in sorted(cluster.children):
            building = threading.Thread(
                target=until_done, args=(cluster, lambda table: table.create_index("by_tail", "tailnum"))
            )
            building.start()
            cluster.kill9(victim)
            building.join()
            with cluster.connect() as db:
                table: Any = db.table("rows", row=Flight)
                assert [each.in_service for each in table.indexes()] == [True]
            if victim != max(cluster.children):
                until_done(cluster, drop)
        before = load.changes
        wait_until(lambda: load.changes > before, "rows go on changing")
    finally:
        load.stop()
    assert load.refused == []
    cluster.wait_ready("rows")
    check_finds(cluster, load.rows)
    assert "differ" not in cluster.run("admin", "verify", "rows")
    assert "by_tail (tailnum)" in cluster.run("table", "index", "list", "rows")


def drop(table: Any) -> None:
    """Once more where the reply was lost: then there is none."""
    if table.indexes():
        table.drop_index("by_tail")
