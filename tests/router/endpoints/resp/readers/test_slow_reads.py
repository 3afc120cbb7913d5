"""What a reader process reports of its slow reads, and what its server makes of the lines."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.model.identifiers import table_id_from_bytes
from log_tier.slow_calls.slow_call_log import SlowCallLog
from log_tier.slow_calls.slow_ring import NOTED_MAX_PER_S
from router.endpoints.resp.commands.command_table import COMMANDS
from router.endpoints.resp.readers.reader_table import ReaderTable
from router.endpoints.resp.readers.slow_reads import SlowReads, hear_slow_read

FLIGHTS = TableEntry(table_id_from_bytes(bytes(range(16))), "flights", 4, 1, ((), (), (), ()))


class OneTable:
    """A table as a reader has it, as far as it is reported."""

    id = FLIGHTS.ref.id
    partition_of = staticmethod(FLIGHTS.ref.partition_of)


TABLE = cast("ReaderTable", OneTable())


def test_a_line_becomes_a_slow_call() -> None:
    lines: list[bytes] = []
    reads = SlowReads(0.1, lambda: 7.25, lines.append)
    reads.took(COMMANDS["mget"], [b"MGET", b"\xff" * 40, b"b"], TABLE, 7.0, "10.0.0.1:99")
    slow = SlowCallLog(100)
    slow.know(maps=lambda: ClusterMap().with_table(FLIGHTS), is_alone=True)
    hear_slow_read(slow, lines[0])
    (call,) = slow.ring.newest()
    assert (call.what, call.protocol, call.outcome, call.took_s) == ("mget", "resp", "done", 0.25)
    assert (call.subject.table, call.subject.key, call.subject.items) == ("flights", b"\xff" * 32, 3)
    assert call.partition == FLIGHTS.ref.partition_of(b"\xff" * 40)
    assert (call.user, call.peer, call.parts) == ("", "10.0.0.1:99", {"read": 0.25})


def test_a_table_that_is_gone_has_no_name() -> None:
    lines: list[bytes] = []
    SlowReads(0.1, lambda: 7.25, lines.append).took(COMMANDS["get"], [b"get", b"k"], TABLE, 7.0, "a:1")
    slow = SlowCallLog(100)
    slow.know(maps=ClusterMap)
    hear_slow_read(slow, lines[0])
    assert slow.ring.newest()[0].subject.table is None


def test_a_storm_is_bounded_in_each_second() -> None:
    lines: list[bytes] = []
    now_s = [7.0]
    reads = SlowReads(0.1, lambda: now_s[0], lines.append)
    for second in (7.0, 8.5):
        now_s[0] = second
        for _ in range(3 * NOTED_MAX_PER_S):
            reads.took(COMMANDS["get"], [b"get", b"k" * 500], TABLE, second - 1, "a" * 1000)
    assert len(lines) == 2 * NOTED_MAX_PER_S
    assert all(len(line) < 512 and line.endswith(b"\n") for line in lines), "a pipe takes each as a whole"
    assert json.loads(lines[0])["what"] == "get"


NO_COUNT = (
    b'{"what":"get","table":"AAECAwQFBgcICQoLDA0ODw","partition":0,"key":"6b","words":1e999,"began_s":1,"ended_s":2,'
    b'"peer":""}\n'
)


@pytest.mark.parametrize(
    "line", [b"ready\n", b"{}\n", b"[1]\n", b'{"what": 1, "table": 2}\n', b"\xff\n", b"[" * 100_000, NO_COUNT]
)
def test_a_line_that_is_none_is_refused_by_its_kind(line: bytes) -> None:
    slow: Any = SlowCallLog(100)
    with pytest.raises((ValueError, KeyError, TypeError)):
        hear_slow_read(slow, line)
    assert len(slow.ring) == 0
