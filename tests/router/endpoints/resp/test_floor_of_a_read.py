"""What a read waits for is what was acknowledged when it came: those who go on writing do not hold it up.

The replica is held at each chunk of its log. A read comes when one write is acknowledged and not applied; a second
one is acknowledged while it waits; then the replica applies the first one alone, and the read is answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kit.deadlines import wait_until
from kit.index.stepped import stepped
from kit.resp.raw_client import Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.model.identifiers import Partition, PartitionId
from router.endpoints.resp.server.sockets import RespSettings
from router.endpoints.resp.wire.limits import AT_ONCE_KEYS_MAX
from serving_tier.replica.replica import Replica

KEYS: Final = [b"key:%05d" % number for number in range(AT_ONCE_KEYS_MAX + 500)]
SECOND: Final = [b"second:%05d" % number for number in range(len(KEYS))]


@pytest.fixture
def one(tmp_path: Path) -> Iterator[ServerThread]:
    server = ServerThread(tmp_path, RespSettings(port=0, table_partitions=1)).start()
    yield server
    server.close()


def pairs(keys: list[bytes], value: bytes) -> list[bytes]:
    return [word for key in keys for word in (key, value)]


COMMANDS: Final[dict[str, tuple[list[Any], Any]]] = {
    "MGET of many": (["MGET", *KEYS], [b"first"] * len(KEYS)),
    "MGET of two": (["MGET", *KEYS[:2]], [b"first"] * 2),
    "GET": (["GET", KEYS[0]], b"first"),
    "STRLEN": (["STRLEN", KEYS[0]], 5),
    "EXISTS of many": (["EXISTS", *KEYS], len(KEYS)),
    "TOUCH of two": (["TOUCH", *KEYS[:2]], 2),
    "DBSIZE": (["DBSIZE"], len(KEYS)),
    "KEYS": (["KEYS", "key:*"], KEYS),  # more than one page
    "SCAN": (["SCAN", "0", "COUNT", "10000"], [b"0", KEYS]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_read_waits_for_what_was_acknowledged_before_it(one: ServerThread, name: str) -> None:
    words, expected = COMMANDS[name]
    with one.connect() as writer, one.connect() as reader:
        assert writer.call("EXISTS", KEYS[0]) == 0, "the table is made"
        replica = _replica(one)
        wait_until(lambda: replica.applied == replica.progress.latest)
        with stepped(replica) as steps:
            assert writer.call("MSET", *pairs(KEYS, b"first")) == Status("OK")
            wait_until(lambda: steps.begun == 1)
            before = replica.applied
            reader.send(packed(*words))
            wait_until(lambda: _waiting(replica))
            assert writer.call("MSET", *pairs(KEYS, b"the second"), *pairs(SECOND, b"")) == Status("OK")
            steps.one()
            found = reader.reply()
            applied = replica.applied
        assert found == expected
        assert applied == before + len(KEYS), "the second write is not applied"


def _replica(server: ServerThread) -> Replica:
    (table,) = server.data_plane.catalog.map.tables.values()
    return server.data_plane.node.replica(PartitionId(table.id, Partition(0)))


def _waiting(replica: Replica) -> int:
    return len(replica.progress._waiters)
