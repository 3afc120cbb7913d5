"""FLUSHDB: a table is cleared by a barrier in its log, on one machine and on a cluster, while others go on."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess
from kit.cluster.up_cluster import UpCluster
from kit.deadlines import wait_until
from kit.resp.reader_counts import NONE_AND_TWO

import duramen


@pytest.fixture(params=NONE_AND_TWO)
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    arguments = ["--resp-port", "0", "--resp-readers", str(request.param)]
    running = ServerProcess(tmp_path / "data", log=tmp_path / "server.log", arguments=arguments)
    yield running
    running.close()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Any]:
    with redis.Redis(port=int(server.announcement["resp_port"])) as connected:
        yield connected


def test_nothing_is_left_and_life_goes_on(server: ServerProcess, client: Any, tmp_path: Path) -> None:
    client.mset({f"key{number}": "x" for number in range(1000)})
    client.set("brief", "x", ex=1000)
    client.select(3)
    client.set("other", "stays")
    client.select(0)
    assert client.flushdb() is True
    assert (client.dbsize(), client.get("key7"), client.keys()) == (0, None, [])
    client.set("key7", "again")
    assert client.flushdb(asynchronous=True) is True
    assert client.flushdb() is True, "an empty one, too"
    assert client.incr("key7") == 1
    assert client.dbsize() == 1
    with redis.Redis(port=int(server.announcement["resp_port"]), db=3) as third:
        assert third.get("other") == b"stays"
    with duramen.connect(server.target) as database:
        table = database.table("default")
        assert dict(table.scan(level="strong")) == {b"key7": b"1"}
    (found,) = [each for each in run_versions(server) if each["table"] == "default"]
    assert (found["state"], found["lacking"]) == ("live", []), "nothing is kept of what was cleared"
    server.stop()
    server.start()
    with redis.Redis(port=int(server.announcement["resp_port"])) as later:
        assert later.keys() == [b"key7"]


def test_an_index_that_was_lost_is_replayed_over_all_clearings(
    server: ServerProcess, client: Any, tmp_path: Path
) -> None:
    """The catalog has forgotten the versions between, and the log's barriers say how to make them."""
    for number in range(5):
        client.set(f"before{number}", "x")
        assert client.flushdb() is True
    client.set("since", "y")
    server.stop()
    shutil.rmtree(tmp_path / "data" / "index")
    server.start()
    with redis.Redis(port=int(server.announcement["resp_port"])) as later:
        assert later.dbsize() == 1
        assert later.keys() == [b"since"]
        assert later.get("since") == b"y"


def run_versions(server: ServerProcess) -> list[dict[str, Any]]:
    import json

    done = run_here("admin", "versions", "--json", at=server.target)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_is_no_flush(client: Any) -> None:
    with pytest.raises(redis.ResponseError, match="syntax error"):
        client.execute_command("FLUSHDB", "SOMEHOW")
    with pytest.raises(redis.ResponseError, match="syntax error"):
        client.execute_command("FLUSHDB", "SYNC", "SYNC")


def test_others_write_meanwhile(server: ServerProcess, client: Any) -> None:
    """What is acknowledged after the reply is there; what each writer finds is one of its own values, or nothing."""
    port = int(server.announcement["resp_port"])
    stop, troubles, rounds = threading.Event(), [], [0, 0, 0]

    def write(me: int) -> None:
        try:
            with redis.Redis(port=port) as mine:
                while not stop.is_set():
                    rounds[me] += 1
                    mine.set(f"writer{me}", rounds[me])
                    found = mine.get(f"writer{me}")
                    if found not in (None, b"%d" % rounds[me]):
                        troubles.append((me, rounds[me], found))
        except Exception as error:  # noqa: BLE001 - reported by the test
            troubles.append((me, rounds[me], error))

    writers = [threading.Thread(target=write, args=(me,)) for me in range(3)]
    for writer in writers:
        writer.start()
    try:
        for number in range(5):
            wait_until(partial(_all_above, rounds, list(rounds)), what="everybody writes")
            client.set("mine", number)
            assert client.flushdb() is True
            assert client.get("mine") is None
        # The last clearing may have come behind a writer's last round.
        wait_until(partial(_all_above, rounds, list(rounds)), what="everybody has written since")
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert not troubles
    assert client.get("writer0") == b"%d" % rounds[0]


def _all_above(rounds: list[int], before: list[int]) -> bool:
    return all(now > then for now, then in zip(rounds, before, strict=True))


def _all_gone(client: Any) -> bool:
    return bool(client.mget([f"key{number}" for number in range(300)]) == [None] * 300)


def test_several_clear_at_once(server: ServerProcess, client: Any) -> None:
    client.set("key", "value")
    port = int(server.announcement["resp_port"])
    replies: list[Any] = []

    def clear() -> None:
        with redis.Redis(port=port) as mine:
            replies.append(mine.flushdb())

    threads = [threading.Thread(target=clear) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == [True] * 4
    assert client.dbsize() == 0


def test_every_node_of_a_cluster_is_cleared(tmp_path: Path) -> None:
    cluster = UpCluster(tmp_path)
    try:
        clients = {name: redis.Redis(port=port) for name, port in cluster.endpoints.items()}
        clients["router"].mset({f"key{number}": "x" for number in range(300)})
        for name, resp_server in clients.items():
            resp_server.set("last", name)
            assert resp_server.flushdb() is True, name
            assert resp_server.get("last") is None, name
            for other in clients.values():
                wait_until(partial(_all_gone, other), what="all are gone")
        for resp_server in clients.values():
            resp_server.close()
    finally:
        cluster.close()
