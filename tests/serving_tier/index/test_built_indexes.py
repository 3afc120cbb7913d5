"""Ordered indexes that come and go while rows change: at every step the entries are some of the right ones, and all of
them from the barrier on that puts the index into service, however the file came there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.flight_rows import FLIGHTS, flight, flight_key
from kit.log.stored_log import PARTITION, TABLE, Said, StoredLog, delete, put

from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import IndexBuilding, InvalidRequest, LimitExceeded
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.record import Expiry
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.table_index import TableIndex
from serving_tier.fold.index_builds import NO_BUILDS
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex

PLACE = PartitionId(TABLE, PARTITION)
BUILDING = FLIGHTS.with_index("by_tail", ("tailnum",))
SERVED = BUILDING.with_index_served(1)
BY_TAIL = SERVED.indexes[0]


class ChangedLog(StoredLog):
    """A log with barriers that bring definitions."""

    def define(self, definition: TableDefinition) -> bytes:
        batch = barrier_batch(Barrier(1, 3, definition=definition.text), producer_id=5 + definition.number, sequence=0)
        stamped = stamp_batch(batch, base_offset=Offset(self.next_offset), timestamp_ms=self.time_ms, unsynced=0)
        self.next_offset += 1
        self.batches.append(stamped)
        return stamped

    def random_rows(self, random: Random, count: int) -> list[bytes]:
        return [self._random_batch(random) for _ in range(count)]

    def _random_batch(self, random: Random) -> bytes:
        self.time_ms += random.randrange(5)
        said: list[Said] = []
        for _ in range(random.randrange(1, 4)):
            number = random.randrange(20)
            key = flight_key("UA", number)
            expiry = random.choice([Expiry.NONE, Expiry.NONE, Expiry.TTL])
            row = flight("UA", number, random.choice([None, "N1", "N2"]), random.choice([0.0, 2.0]))
            ttl = 9 if expiry is Expiry.TTL else 0
            said.append(delete(key) if random.random() < 0.3 else put(key, row, expiry=expiry, expiry_ms=ttl))
        return self.append(*said)


def new_index(folder: Path, definition: TableDefinition = FLIGHTS) -> LmdbIndex:
    return LmdbIndex.open(folder, partition=PLACE, definition=definition)


def ordered(index: LmdbIndex) -> list[bytes]:
    if index._databases.ordered is None:
        return []
    with index._reading() as txn:
        return list(txn.cursor(index._databases.ordered).iternext(values=False))


def of_index(entries: Any, of: TableIndex) -> list[bytes]:
    return [each for each in entries if each[:2] == of.number.to_bytes(2)]


def built(index: LmdbIndex, rows: int = 1) -> int:
    pieces = 0
    while index.build_some(rows) is not None:
        pieces += 1
    return pieces


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 30), pieces=st.lists(st.sampled_from(["chunk", "piece", "kill"]), max_size=60))
def test_entries_are_those_of_the_model(tmp_path_factory: pytest.TempPathFactory, seed: int, pieces: list[str]) -> None:
    """Rows change, an index comes, is built piece by piece, put into service and dropped, another one comes; the
    process is killed in between. What is cut where decides nothing.
    """
    random, log = Random(seed), ChangedLog()
    definitions = [BUILDING, SERVED, SERVED.without_index(1)]
    late = conditions_of({"dep_delay": (1.0, None)}, FLIGHTS) if random.random() < 0.5 else ()
    definitions.append(definitions[-1].with_index("by_tail", ("dep_delay", "tailnum"), late))
    definitions.append(definitions[-1].with_index_served(2))
    batches = log.random_rows(random, 12)
    for each in definitions:
        batches += [log.define(each), *log.random_rows(random, random.randrange(8))]
    folder = tmp_path_factory.mktemp("built") / "index"
    index, model = new_index(folder, definitions[-1]), MemoryIndex(definition=definitions[-1])
    assert index.definition == FLIGHTS
    at = 0
    for step in [*pieces, *["chunk"] * len(batches)]:
        if step == "kill":
            index.close(clean=False)
            index = new_index(folder, definitions[-1])
        elif step == "piece":
            index.build_some(random.randrange(1, 5))
        elif at < len(batches):
            size = random.randrange(1, 9)
            chunk, at = b"".join(batches[at : at + size]), at + size
            index.apply(chunk)
            model.apply(chunk)
        assert index.definition == model.definition
        wanted = list(model._ordered)
        for of in model.definition.indexes:  # type: ignore[union-attr]
            found = of_index(ordered(index), of)
            if of.number in index.builds.building:
                assert set(found) <= set(of_index(wanted, of))
                with pytest.raises(IndexBuilding, match="is being built"):
                    index.find(of, b"", None)
            else:
                assert found == of_index(wanted, of)
            assert of.number in index.definition.history.building or of.number not in index.builds.building  # type: ignore[union-attr]
    assert ordered(index)[-len(wanted) :] == wanted if wanted else True
    assert [key for key, _ in index.find(definitions[-1].indexes[0], b"", None).entries] == [
        key for key, _ in model.find(definitions[-1].indexes[0], b"", None).entries
    ]
    index.close()


def test_a_build_goes_on_where_it_was_and_ends(tmp_path: Path) -> None:
    log, index = ChangedLog(), new_index(tmp_path / "index")
    for number in range(10):
        index.apply(log.append(put(flight_key("UA", number), flight("UA", number, "N1"))))
    assert index.build_some(5) is None, "nothing is to be built"
    index.apply(log.define(BUILDING))
    assert index.builds.building == {1: b""}
    assert [index.build_some(4), index.builds.building[1]] == [1, flight_key("UA", 3)]
    index.close(clean=False)
    index = new_index(tmp_path / "index", BUILDING)
    assert index.builds.building == {1: flight_key("UA", 3)}
    assert len(ordered(index)) == 4
    index.apply(log.append(put(flight_key("UA", 9), flight("UA", 9, "N2"))))
    index.apply(log.append(delete(flight_key("UA", 8))))
    assert built(index, 4) == 2
    assert index.builds == NO_BUILDS
    with pytest.raises(IndexBuilding):
        index.find(BY_TAIL, b"", None)
    index.apply(log.define(SERVED))
    assert len(index.find(BY_TAIL, b"", None).entries) == 9
    index.close()


class FindsBeforeNotice(LmdbIndex):
    """Each apply is found in by another caller when it is committed, and not noticed yet."""

    refusals: tuple[str, ...] = ()

    def _commit(self, after: Any, effects: Any) -> None:
        try:
            self.find(BY_TAIL, b"", None)
        except InvalidRequest as error:
            self.refusals = (*self.refusals, error.message)
        super()._commit(after, effects)


def test_a_find_between_a_commit_and_its_notice_misses_no_row(tmp_path: Path) -> None:
    """Another thread reads when the entries of a dropped index are gone, and the applier has not said so yet."""
    log = ChangedLog()
    index = FindsBeforeNotice.open(tmp_path / "index", partition=PLACE, definition=SERVED)
    index.apply(b"".join([log.define(BUILDING), log.define(SERVED)]))
    index.apply(log.append(*(put(flight_key("UA", n), flight("UA", n, "N1")) for n in range(5))))
    assert (len(index.find(BY_TAIL, b"", None).entries), index.refusals) == (5, ())
    index.apply(log.define(SERVED.without_index(1)))
    assert (ordered(index), len(index.refusals)) == ([], 1)
    index.close()


def test_a_find_that_began_before_a_commit_is_judged_by_what_it_reads(tmp_path: Path) -> None:
    """An index is put into service, or dropped, by another thread when the find's transaction is open already."""
    log, index = ChangedLog(), new_index(tmp_path / "index", SERVED)
    index.apply(log.append(*(put(flight_key("UA", n), flight("UA", n, "N1")) for n in range(5))))
    index.apply(log.define(BUILDING))

    def found_across(definition: TableDefinition) -> int:
        begin = index._begin

        def then_apply(*how: Any) -> Any:
            txn = begin(*how)
            index._begin = begin
            with ThreadPoolExecutor(1) as applier:
                applier.submit(index.apply, log.define(definition)).result()
            return txn

        index._begin = then_apply
        return len(index.find(BY_TAIL, b"", None).entries)

    with pytest.raises(IndexBuilding):
        found_across(SERVED)
    assert found_across(SERVED.without_index(1)) == 5
    index.close()


def test_a_row_that_is_too_long_stops_the_build_and_nothing_else(tmp_path: Path) -> None:
    log, index = ChangedLog(), new_index(tmp_path / "index")
    long, key = flight("UA", 1, "x" * 520), flight_key("UA", 1)
    index.apply(log.append(put(key, long)))
    index.apply(log.define(BUILDING))
    with pytest.raises(LimitExceeded, match="too long for the index by_tail"):
        index.build_some(10)
    assert index.builds.building == {1: b""}
    index.apply(log.append(put(key, long)))
    assert index.statistics().void == 1, "from the barrier on it does not fit"
    index.apply(log.append(put(key, flight("UA", 1, "N1"))))
    assert built(index) == 1
    index.apply(log.define(SERVED))
    assert len(index.find(BY_TAIL, b"", None).entries) == 1
    index.close()


def test_a_long_row_does_not_keep_an_index_from_being_dropped(tmp_path: Path) -> None:
    log, index = ChangedLog(), new_index(tmp_path / "index")
    index.apply(log.append(put(flight_key("UA", 1), flight("UA", 1, "x" * 520))))
    index.apply(log.define(BUILDING) + log.append(put(flight_key("UA", 2), flight("UA", 2, "N1"))))
    index.apply(log.append(delete(flight_key("UA", 1))))
    index.apply(log.define(BUILDING.without_index(1)))
    assert index.builds.building == {}
    index.apply(log.append(put(flight_key("UA", 3), flight("UA", 3, "N1"))))
    assert (ordered(index), index.builds) == ([], NO_BUILDS)
    with pytest.raises(InvalidRequest, match="no index 'by_tail'; it has none"):
        index.find(BY_TAIL, b"", None)
    index.close()


def test_what_was_dropped_goes_in_pieces(tmp_path: Path) -> None:
    log, index = ChangedLog(), new_index(tmp_path / "index", SERVED)
    index.apply(b"".join([log.define(BUILDING), log.define(SERVED)]))
    index.apply(log.append(*(put(flight_key("UA", n), flight("UA", n, "N1")) for n in range(450))))
    index.apply(log.define(SERVED.without_index(1)))
    left = [len(ordered(index))]
    while index.builds:
        index.close(clean=False)
        index = new_index(tmp_path / "index", SERVED)
        index.apply(log.append(put(flight_key("UA", 0), flight("UA", 0))))
        left.append(len(ordered(index)))
    assert left == sorted(left, reverse=True)
    assert (left[-1], len(left)) == (0, 3)
    index.close()


def test_a_version_takes_the_indexes_of_the_live_one(tmp_path: Path) -> None:
    """Its own rows go in, wherever it stood when the barriers came."""
    log, live, other = ChangedLog(), new_index(tmp_path / "live"), new_index(tmp_path / "other")
    chunk = log.append(put(flight_key("UA", 1), flight("UA", 1, "N1")))
    live.apply(chunk)
    other.apply(chunk)
    live.apply(log.define(BUILDING))
    other.define(live.definition)
    assert other.builds.building == {1: b""}
    assert built(live) == built(other) == 1
    live.apply(log.define(SERVED))
    other.level_with(live)
    assert other.definition == SERVED
    assert ordered(other) == ordered(live)
    for index in (live, other):
        index.close()


def test_a_row_that_is_too_long_in_one_fold_with_the_barrier_stops_nothing(tmp_path: Path) -> None:
    """It came before the index, so it was taken; the build names it."""
    log = ChangedLog()
    log.append(put(flight_key("UA", 1), flight("UA", 1, "x" * 600)), put(flight_key("UA", 2), flight("UA", 2, "N2")))
    log.define(BUILDING)
    chunk = b"".join(log.batches)
    index, model = new_index(tmp_path / "index"), MemoryIndex(definition=FLIGHTS)
    index.apply(chunk)
    model.apply(chunk)
    assert (index.applied, index.count()) == (model.applied, model.count()) == (2, 2)
    assert len(ordered(index)) == 1
    with pytest.raises(LimitExceeded, match="too long for the index by_tail"):
        built(index)
    index.close()
