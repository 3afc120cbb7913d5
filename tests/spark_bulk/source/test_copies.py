"""An index at an offset, from whatever has it: the plan, and real snapshots, peers and logs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from kit.client.server_process import ServerProcess, run_duramen
from kit.spark.table_places import place_of, snapshot_at

import duramen
from duramen.blocking import Database, Table
from log_tier.catalog.cluster_map import SnapshotEntry
from log_tier.embedded import EmbeddedLog
from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import OffsetTrimmed, TableNotFound, TokenAhead, Unavailable
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.log import Bounds, Topic
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.table_place import TablePlace, find_table, token_offsets
from spark_bulk.source.table import index_copies
from spark_bulk.source.table.closed_index_file import ClosedIndexFile
from spark_bulk.source.table.index_copies import IndexCopy, WantedCopy, open_index_copy, plan_of

ZERO = Partition(0)

# --- the plan


def planned(
    until: int,
    *snapshots: SnapshotEntry,
    earliest: int = 0,
    latest: int = 10**6,
    store: str = "file:///s",
    start: int = 0,
    peers: tuple[str, ...] = ("n1",),
    exact: bool = False,
) -> tuple[list[str], list[str]]:
    place = place_of(partitions=1, peers=peers, snapshots=snapshots, start=start)
    wanted = WantedCopy(place, ZERO, Offset(until), exact, store)
    plan = plan_of(wanted, Bounds(Offset(earliest), Offset(latest)))
    return [str(step) for step in plan.choices], list(plan.passed_over)


def test_a_snapshot_that_stands_there_is_first() -> None:
    steps, passed_over = planned(500_000, snapshot_at(400_000, "older"), snapshot_at(500_000, "right"))
    assert steps == ["snapshot right", "snapshot older", "peer n1", "the log"]
    assert passed_over == []


def test_a_long_replay_is_last() -> None:
    steps, _ = planned(900_000, snapshot_at(10, "old"), snapshot_at(20, "newer"), peers=("n1", "n2"))
    assert steps == ["peer n1", "peer n2", "snapshot newer", "snapshot old", "the log"]


def test_a_short_log_needs_no_copy() -> None:
    assert planned(1000)[0] == ["the log", "peer n1"]
    assert planned(1000, snapshot_at(900, "near"))[0] == ["snapshot near", "peer n1", "the log"]
    assert planned(1_000_500, start=1_000_000, earliest=1_000_000, latest=2_000_000)[0] == ["the log", "peer n1"]


def test_what_is_of_no_use_is_named() -> None:
    steps, passed_over = planned(
        500, snapshot_at(10, "before"), snapshot_at(501, "after"), snapshot_at(99, "level"), earliest=100
    )
    assert steps == ["snapshot level", "peer n1"]
    assert passed_over == [
        "snapshot after: it is at 501, beyond the wanted 500",
        "snapshot before: it ends at 10, and the log begins at 100",
        "the log: it begins at 100, what was before is trimmed",
    ]
    steps, passed_over = planned(500, snapshot_at(500, "right"), store="", earliest=100)
    assert steps == ["peer n1"]
    assert passed_over[0] == "1 snapshots: the option `snapshots` does not say where their store is"


# --- real ones


class Filled:
    """A table of one partition, and what it held after each write."""

    def __init__(self, database: Database, server: ServerProcess, name: str) -> None:
        self.server = server
        self.table: Table = database.create_table(name, partitions=1)
        self.name = name
        self.states: dict[int, dict[bytes, bytes]] = {-1: {}}
        self.offset = -1

    def write(self, count: int) -> int:
        """More keys, a delete, a rejected write; return the last offset."""
        state = dict(self.states[self.offset])
        for number in range(count):
            key = b"k%04d" % ((self.offset + number) % 500)
            self.offset = int(self.table.put(key, b"%d" % number).offset)
            state[key] = b"%d" % number
        with pytest.raises(duramen.ConditionFailed):
            self.table.put(key, b"no", if_absent=True)
        self.offset = int(self.table.delete(key).offset)
        del state[key]
        self.states[self.offset] = state
        return self.offset

    def snapshot(self) -> None:
        done = run_duramen("admin", "snapshot", self.name, at=self.server.target)
        assert done.returncode == 0, done.stderr

    @property
    def store(self) -> str:
        return (self.server.data / "snapshots").as_uri()

    def place(self) -> TablePlace:
        return asyncio.run(find_table(ClusterLogin.of(self.server.target), self.name, timeout_s=20))

    def read(
        self,
        until: int,
        *,
        exact: bool = False,
        store: str = "",
        place: TablePlace | None = None,
        timeout_s: float = 20,
    ) -> tuple[IndexCopy, dict[bytes, bytes]]:
        wanted = WantedCopy(place or self.place(), ZERO, Offset(until), exact, store, timeout_s=timeout_s)

        async def take() -> tuple[IndexCopy, dict[bytes, bytes]]:
            async with open_index_copy(wanted) as found:
                state: dict[bytes, bytes] = {}
                if found.data is not None:
                    with ClosedIndexFile.open(found.data) as file:
                        for rows in file.rows(log_time_ms=found.log_time_ms):
                            assert rows.keys is not None
                            assert rows.values is not None
                            state.update(zip(rows.keys.to_pylist(), rows.values.to_pylist(), strict=True))
                return found, state

        return asyncio.run(take())


@pytest.fixture
def filled(database: Database, server: ServerProcess, table_name: str) -> Filled:
    return Filled(database, server, table_name)


@pytest.fixture
def no_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few records are many."""
    monkeypatch.setattr(index_copies, "REPLAY_CHEAP", 0)


def test_from_the_log_at_any_offset(filled: Filled) -> None:
    offsets = [filled.write(50), filled.write(30), filled.write(40)]
    for offset in offsets:
        found, state = filled.read(offset, exact=True)
        assert (found.applied, found.source) == (offset, "the log")
        assert state == filled.states[offset]
    assert filled.read(-1)[1] == {}


def test_from_a_snapshot_where_it_lies_and_with_a_replay(filled: Filled, no_near: None) -> None:
    at = filled.write(60)
    filled.snapshot()
    found, state = filled.read(at, exact=True, store=filled.store)
    assert found.source.startswith("snapshot ")
    assert found.data is not None
    assert found.data.is_relative_to(filled.server.data)
    assert state == filled.states[at]
    later = filled.write(20)
    found, state = filled.read(later, exact=True, store=filled.store)
    assert (found.applied, state) == (later, filled.states[later])


def test_from_a_peer(filled: Filled, no_near: None) -> None:
    at = filled.write(60)
    found, state = filled.read(at)
    assert (found.applied, found.source, state) == (at, "peer n1", filled.states[at])
    later = filled.write(20)
    found, state = filled.read(at)
    assert (found.applied, state) == (later, filled.states[later]), "a read of now may be newer"
    found, state = filled.read(at, exact=True)
    assert (found.applied, found.source, state) == (at, "the log", filled.states[at])


def test_a_bad_snapshot_is_passed_over(filled: Filled, no_near: None) -> None:
    at = filled.write(60)
    filled.snapshot()
    place = filled.place()
    data = filled.server.data / "snapshots" / place.snapshots[0][0].path / "data.mdb"
    good = data.read_bytes()
    data.unlink()
    data.write_bytes(good[:9000] + b"\xff" + good[9001:])
    found, state = filled.read(at, store=filled.store, place=place)
    assert (found.source, state) == ("peer n1", filled.states[at])


def test_no_source_is_left(filled: Filled, no_near: None) -> None:
    at = filled.write(60)
    filled.snapshot()
    filled.write(10)
    place = filled.place()
    shutil.rmtree(filled.server.data / "snapshots" / place.snapshots[0][0].path)
    shortened = TablePlace(
        place.topic, "slot", place.log_url, (Offset(-5),), place.peers, place.snapshots
    )  # begins before its log does: as if that had been trimmed
    with pytest.raises(OffsetTrimmed, match=r"no source is left for .* the log: it begins at 0.*beyond the wanted"):
        filled.read(at, exact=True, store=filled.store, place=shortened)


def test_the_future_is_refused(filled: Filled) -> None:
    at = filled.write(5)
    with pytest.raises(TokenAhead, match=f"its log ends at {at}"):
        filled.read(at + 1)


def test_a_log_that_is_away_is_waited_for_and_named(filled: Filled) -> None:
    filled.write(5)
    place = place_of(partitions=1)
    with pytest.raises(Unavailable, match=r"the log: .*tried for 0.5 s"):
        filled.read(3, place=place, timeout_s=0.5)


def test_nothing_is_left_behind(filled: Filled, tmp_path: Path, no_near: None) -> None:
    at = filled.write(20)
    wanted = WantedCopy(filled.place(), ZERO, Offset(at), False, folder=str(tmp_path))

    async def take() -> ClosedIndexFile:
        async with open_index_copy(wanted) as found:
            assert found.data is not None
            assert found.data.is_relative_to(tmp_path)
            return ClosedIndexFile.open(found.data)

    with asyncio.run(take()) as file:
        assert list(tmp_path.iterdir()) == []
        count = sum(rows.count for rows in file.rows(log_time_ms=0))
    assert count == len(filled.states[at])


def test_a_barrier_is_not_replayed_across(tmp_path: Path) -> None:
    """What another version holds is in no log: the state before it can be made, the one after it only copied."""

    async def fill() -> Topic:
        async with await EmbeddedLog.open(tmp_path / "log") as log:
            topic = await log.create_topic("flights", partitions=1)
            put = encode_batch(Columns([b"a"], [b"1"]))
            for batch in (put, barrier_batch(Barrier(2, 7), producer_id=1, sequence=0), put):
                await log.append(topic.partition(ZERO), batch)
            return topic

    topic = asyncio.run(fill())
    place = place_of(partitions=1, table=topic.id, log_url=tmp_path.as_uri())

    async def applied(until: int) -> int:
        async with open_index_copy(WantedCopy(place, ZERO, Offset(until), True, timeout_s=60)) as found:
            return found.applied

    assert asyncio.run(applied(0)) == 0
    with pytest.raises(OffsetTrimmed, match=r"no source is left .*version 2"):
        asyncio.run(applied(2))


# --- where a table is


def test_a_table_that_there_is_not(server: ServerProcess) -> None:
    with pytest.raises(TableNotFound, match="there is no table 'nowhere'"):
        asyncio.run(find_table(ClusterLogin.of(server.target), "nowhere", timeout_s=20))


def test_tokens_are_compared_with_the_log(filled: Filled) -> None:
    at = filled.write(5)
    place = filled.place()
    token = str(duramen.Token.of(place.topic.id, ZERO, Offset(at)))
    assert token_offsets(token, place, [Bounds(Offset(0), Offset(at))]) == {ZERO: at}
    with pytest.raises(TokenAhead, match=f"the token names offset {at} of {filled.name}/0, whose log ends at {at - 1}"):
        token_offsets(token, place, [Bounds(Offset(0), Offset(at - 1))])
