"""Text indexes of servers that are killed, cleared, and many: what was acknowledged is found, nothing else is."""

from __future__ import annotations

import threading
from pathlib import Path

from kit.client.server_process import ServerProcess, run_duramen
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import patience_s, wait_until
from kit.rows.flights import Flight

import duramen

KILLS = 3


def test_what_was_acknowledged_is_found_after_kills(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", log=tmp_path / "server.log")
    try:
        with duramen.connect(server.target) as db:
            flights = db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=2)
            flights.create_index("words", "remark", kind="text")
        stop, done, gone = threading.Event(), list[int](), list[int]()

        def write() -> None:
            with duramen.connect(server.target, timeout=patience_s(60)) as writing:
                rows = writing.table("flights", row=Flight)
                number = 0
                while not stop.is_set():
                    rows.put(Flight("UA", number, None, 0.0, f"fog number{number}"))
                    done.append(number)
                    if number % 10 == 9:
                        rows.delete("UA", number - 5)
                        gone.append(number - 5)
                    number += 1

        writer = threading.Thread(target=write)
        writer.start()
        for _ in range(KILLS):
            goal = len(done) + 60
            wait_until(lambda goal=goal: len(done) >= goal, seconds=60, what="rows are written between two kills")  # type: ignore[misc]
            server.restart()
        stop.set()
        writer.join(patience_s(60))
        assert not writer.is_alive()
        with duramen.connect(server.target) as db:
            flights = db.table("flights", row=Flight)
            expected = sorted(set(done) - set(gone))
            found = flights.search("fog", limit=1000, level="strong", timeout=patience_s(60))
            assert sorted(each.row.flight for each in found) == expected[:1000]
    finally:
        server.close()


def test_a_table_that_is_cleared(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", log=tmp_path / "server.log")
    try:
        with duramen.connect(server.target) as db:
            flights = db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=2)
            flights.create_index("words", "remark", kind="text")
            flights.put_many(Flight("UA", number, None, 0.0, "fog") for number in range(30))
            assert len(flights.search("fog", limit=100)) == 30
            cleared = run_duramen("admin", "clear", "flights", "--yes", "--at", server.target)
            assert cleared.returncode == 0, cleared.stderr
            assert flights.search("fog", level="strong", timeout=patience_s(60)) == []
            done = flights.put(Flight("DL", 1, None, 0.0, "fog"))
            found = flights.search("fog", after=done.token, timeout=patience_s(60))
            assert [each.row.carrier for each in found] == ["DL"]
    finally:
        server.close()


def test_three_nodes_one_of_which_is_killed(tmp_path: Path) -> None:
    """Partitions are searched wherever they are; a node that comes back builds what it lacks."""
    cluster = ClusterProcess(tmp_path, nodes=3)
    try:
        with cluster.connect() as db:
            flights = db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=4, replicas=2)
            flights.put_many(Flight("UA", number, None, 0.0, f"fog number{number}") for number in range(100))
            flights.create_index("words", "remark", kind="text", timeout=patience_s(60))
            found = flights.search("fog", limit=1000, level="strong", timeout=patience_s(60))
            assert sorted(each.row.flight for each in found) == list(range(100))
            scores = [each.score for each in found]
            assert scores == sorted(scores, reverse=True)
            assert len(flights.search("fog", limit=7)) == 7
            (only,) = flights.search("number63")
            assert only.row.flight == 63
            done = flights.put(Flight("DL", 1, None, 0.0, "delayed"))
            assert [each.row.carrier for each in flights.search("delayed", after=done.token)] == ["DL"]
            cluster.kill9("n2")
            done = flights.put(Flight("DL", 2, None, 0.0, "delayed"), timeout=patience_s(60))
            found = flights.search("delayed", after=done.token, timeout=patience_s(60))
            assert sorted(each.row.flight for each in found) == [1, 2]
            cluster.wait_ready("flights")
            found = flights.search("fog", limit=1000, level="strong", timeout=patience_s(60))
            assert sorted(each.row.flight for each in found) == list(range(100))
    finally:
        cluster.close()
