"""Server: real clients of every kind at a server in the test's process, through its deaths."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kit.resp.raw_client import Raw, Status

import duramen
from duramen import blocking, testing

pytestmark = pytest.mark.embedded_log_only


@pytest.fixture
def server() -> Iterator[testing.Server]:
    with testing.Server() as opened:
        yield opened


def test_clients_of_both_protocols(server: testing.Server) -> None:
    with duramen.connect(server.address) as database, Raw(("127.0.0.1", server.redis_port)) as redis:
        table = database.create_table("orders", partitions=1)
        table.put(b"key", b"value")
        assert redis.call("SET", "other", "value") == Status("OK")
        assert redis.call("GET", "other") == b"value"
    assert server.redis_url == f"redis://127.0.0.1:{server.redis_port}"


def test_it_dies_and_comes_back_where_it_was(server: testing.Server) -> None:
    address, port = server.address, server.redis_port
    with duramen.connect(address, timeout=20) as database:
        table = database.create_table("orders", partitions=1)
        table.put(b"key", b"value")
        for keep in (True, False):
            server.kill()
            assert not server.is_running
            with pytest.raises((duramen.Unavailable, duramen.WriteUnknown)):
                table.put(b"lost", b"value", timeout=0.5)
            server.start(keep_indexes=keep)
            assert (server.address, server.redis_port) == (address, port)
            assert table.get(b"key", level="strong") == b"value"
        server.stop()
        server.start()
        assert table.get(b"key", level="strong") == b"value"
    with Raw(("127.0.0.1", port)) as redis:
        assert redis.call("PING") == Status("PONG")


def fill(table: blocking.Table) -> None:
    for number in range(50):
        table.put(b"key-%d" % number, bytes(200_000))


def test_a_full_disk_reaches_clients_as_their_protocol_says_it(server: testing.Server) -> None:
    with duramen.connect(server.address, direct=False) as database, Raw(("127.0.0.1", server.redis_port)) as redis:
        table = database.create_table("orders", partitions=1)
        redis.call("SET", "key", "value")
        server.faults.disk_full()
        with pytest.raises(duramen.DiskFull):
            fill(table)
        replies = [redis.call("SET", f"key-{number}", "v" * 200_000) for number in range(50)]
        assert any("No space left" in getattr(reply, "text", "") for reply in replies), replies[-1]
        server.faults.disk_has_room()
        assert redis.call("SET", "key", "again") == Status("OK")


def test_two_servers_at_once() -> None:
    with testing.Server() as one, testing.Server() as other:
        assert one.address != other.address
        with duramen.connect(one.address) as database:
            database.create_table("orders")
        with duramen.connect(other.address) as database:
            assert database.tables() == []


def test_what_cannot_be_is_refused() -> None:
    server = testing.Server()
    with pytest.raises(testing.ClusterEnded, match="use `with"):
        _ = server.address
    with server:
        with pytest.raises(testing.UnknownProcess, match="runs"):
            server.start()
        server.kill()
        with pytest.raises(testing.UnknownProcess, match="is down"):
            server.kill()
    with pytest.raises(testing.ClusterEnded):
        server.start()
