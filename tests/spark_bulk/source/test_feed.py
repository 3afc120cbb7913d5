"""The change feed of a partition: void records left out, whichever replica can be asked."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest
from kit.client.server_process import ServerProcess

import duramen
from duramen.blocking import Database, Table
from log_tier.model.errors import OffsetTrimmed, Unavailable
from log_tier.model.identifiers import Offset, Partition
from serving_tier.service.peer import NodePeer
from spark_bulk.source.log import feed
from spark_bulk.source.log.feed import FeedPart, read_feed
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.steps import stepped
from spark_bulk.source.model.table_place import PeerAddress, find_table

SCHEMA = pa.schema([("offset", pa.int64()), ("operation", pa.string()), ("key", pa.binary())])

RECORDS = 120


@pytest.fixture
def table(database: Database, table_name: str) -> Table:
    """Every third record is rejected."""
    made = database.create_table(table_name, partitions=1)
    for number in range(RECORDS // 3):
        made.put(b"k%d" % number, b"v")
        made.put(b"k%d" % number, b"w")
        with pytest.raises(duramen.ConditionFailed):
            made.put(b"k%d" % number, b"no", if_absent=True)
    return made


@pytest.fixture
def part(table: Table, server: ServerProcess) -> FeedPart:
    place = asyncio.run(find_table(ClusterLogin.of(server.target), table.name, timeout_s=20))
    return FeedPart(place, Partition(0), Offset(0), Offset(RECORDS - 1), all_records=False, timeout_s=20)


def read(part: FeedPart, **how: int) -> list[int]:
    found: list[int] = []
    for batch in stepped(read_feed(part, SCHEMA, **how)):
        found += batch.column(0).to_pylist()
    return found


ACCEPTED = [offset for offset in range(RECORDS) if offset % 3 != 2]


def with_peers(part: FeedPart, *targets: str) -> FeedPart:
    peers = tuple(PeerAddress(f"n{number}", target) for number, target in enumerate(targets))
    return replace(part, place=replace(part.place, peers=(peers,)))


def test_rejected_records_are_left_out(part: FeedPart, table: Table) -> None:
    assert read(part) == ACCEPTED
    with closing(table.watch(start="earliest")) as changes:
        assert [next(changes).offset for _ in ACCEPTED] == ACCEPTED


@pytest.mark.parametrize("window", [1, 7, 40])
def test_verdicts_are_asked_for_window_by_window(part: FeedPart, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(feed, "VOIDS_MAX", window)
    assert read(part, chunk_bytes=300) == ACCEPTED
    assert read(replace(part, first=Offset(50), last=Offset(61)), chunk_bytes=300) == [
        each for each in ACCEPTED if 50 <= each <= 61
    ]


def test_another_replica_is_asked_where_one_is_away(part: FeedPart, server: ServerProcess) -> None:
    assert read(with_peers(part, "127.0.0.1:1", server.target)) == ACCEPTED


def test_nobody_to_ask_is_an_error_with_a_way_out(part: FeedPart) -> None:
    alone = replace(with_peers(part), timeout_s=0.3)
    with pytest.raises(Unavailable, match="no node of it has an address; start a node that holds it"):
        read(alone)
    away = replace(with_peers(part, "127.0.0.1:1"), timeout_s=0.3)
    with pytest.raises(Unavailable, match=r"is unknown: n0: .*records=all"):
        read(away)
    assert read(replace(alone, all_records=True)) == list(range(RECORDS))


def test_an_answer_that_no_repetition_changes_is_passed_on(
    part: FeedPart, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forgotten(*_: object, **__: object) -> list[int]:
        raise OffsetTrimmed("which records were rejected is known from offset 90 on", earliest=90)

    monkeypatch.setattr(NodePeer, "voids", forgotten)
    with pytest.raises(OffsetTrimmed, match="known from offset 90 on"):
        read(part)


def test_a_reader_that_stops_early_leaves_nothing_open(part: FeedPart) -> None:
    batches = stepped(read_feed(part, SCHEMA, chunk_bytes=300))
    assert next(batches).column(0).to_pylist()[0] == 0
    batches.close()  # type: ignore[attr-defined]
