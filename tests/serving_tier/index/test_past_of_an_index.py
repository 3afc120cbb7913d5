"""The past in either index: at every offset that is kept, a read answers what the present was then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kit.index.past_batches import KEYS, random_batches
from kit.log.stored_log import PARTITION, TABLE, StoredLog, delete, put

from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import HistoryGone, InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.kept_history import KeptHistory
from log_tier.rows.definition import TableDefinition
from serving_tier.fold.verdicts import changed_nothing
from serving_tier.index.index import PastPoint
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex

PLACE = PartitionId(TABLE, PARTITION)
NEWEST = PastPoint()
ALL, THREE, LATELY = KeptHistory(), KeptHistory(versions=3), KeptHistory(age_ms=60)
NewIndex = Callable[[KeptHistory | None], Any]


@pytest.fixture(params=["in memory", "on disk"])
def new_index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewIndex]:
    made: list[Any] = []

    def make(keeps: KeptHistory | None) -> Any:
        definition = TableDefinition(keeps=keeps)
        made.append(
            MemoryIndex(definition=definition)
            if request.param == "in memory"
            else LmdbIndex.open(tmp_path / f"index{len(made)}", partition=PLACE, definition=definition)
        )
        return made[-1]

    yield make
    for index in made:
        index.close()


def presents(batches: list[bytes]) -> dict[Offset, tuple[Any, int]]:
    """What each key was at the end of each batch, of an index that keeps nothing, and the log time."""
    index, seen = MemoryIndex(), {}
    for batch in batches:
        index.apply(batch)
        seen[index.applied] = (index.get_many(KEYS), index.log_time_ms)
    return seen


@pytest.mark.parametrize("keeps", [ALL, THREE, LATELY], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_the_present_was(new_index: NewIndex, keeps: KeptHistory, seed: int) -> None:
    random = Random(seed)
    batches = random_batches(random, 40)
    seen = presents(batches)
    index, model = new_index(keeps), MemoryIndex(definition=TableDefinition(keeps=keeps))
    while batches:
        cut = random.randrange(1, 12)
        chunk, batches = b"".join(batches[:cut]), batches[cut:]
        index.apply(chunk)
        model.apply(chunk)
        gone = 0
        for at, (then, time_ms) in seen.items():
            if at > index.applied:
                break
            for number, key in enumerate(KEYS):
                assert outcome(index, key, at) == outcome(model, key, at)
                try:
                    found = index.get_past([key], PastPoint(at))
                except HistoryGone as error:
                    gone += 1
                    earliest = Offset(int(str(error.fields["earliest"])))
                    assert index.get_past([key], PastPoint(earliest)).applied == earliest > at
                    continue
                assert (found.values[0], found.versions[0]) == (then.values[number], then.versions[number]), (at, key)
                assert index.versions(key, PastPoint(at), limit=100) == model.versions(key, PastPoint(at), limit=100)
            if time_ms and keeps is ALL:
                by_time = index.get_past(KEYS, PastPoint(time_ms=time_ms))
                assert by_time == model.get_past(KEYS, PastPoint(time_ms=time_ms))
                assert by_time.applied >= at
        assert (gone == 0) == (keeps is ALL) or index.applied < 40


@pytest.mark.parametrize("keeps", [ALL, THREE, LATELY], ids=str)
def test_it_does_not_depend_on_where_chunks_end(new_index: NewIndex, keeps: KeptHistory) -> None:
    batches = random_batches(Random(99), 80)
    whole, pieces = new_index(keeps), new_index(keeps)
    whole.apply(b"".join(batches))
    for batch in batches:
        pieces.apply(batch)
    assert whole.digest() == pieces.digest()
    for key in KEYS:
        assert whole.versions(key, NEWEST, limit=1000) == pieces.versions(key, NEWEST, limit=1000)
        for at in range(whole.applied + 1):
            assert outcome(whole, key, at) == outcome(pieces, key, at)


def outcome(index: Any, key: bytes, at: int) -> object:
    try:
        return index.get_past([key], PastPoint(Offset(at)))
    except HistoryGone as error:
        return error.fields


def test_versions_of_a_key(new_index: NewIndex) -> None:
    log, index = StoredLog(), new_index(ALL)
    for said in (put(b"k", b"1"), delete(b"k"), delete(b"k"), put(b"x", b"0"), put(b"k", b"2"), put(b"k", b"3")):
        index.apply(log.append(said, later_ms=10))
    applied, found = index.versions(b"k", NEWEST, limit=10)
    assert applied == 5
    assert [(each.offset, each.stored and each.stored[8:], each.log_time_ms) for each in found] == [
        (5, b"3", 1_000_060),
        (4, b"2", 1_000_050),
        (1, None, 1_000_020),
        (0, b"1", 1_000_010),
    ]
    assert index.versions(b"k", PastPoint(Offset(3)), limit=1) == (3, found[2:3])
    assert index.versions(b"k", PastPoint(time_ms=1_000_045), limit=1) == (3, found[2:3])
    assert index.versions(b"none", NEWEST, limit=10) == (5, [])
    assert index.get_past([b"k"], PastPoint(NOTHING)).values == [None]
    assert index.get_past([b"k"], PastPoint(time_ms=5)).values == [None]


def test_of_the_newest_changes_the_first_offset_that_is_kept_is_named(new_index: NewIndex) -> None:
    log, index = StoredLog(), new_index(KeptHistory(versions=2))
    index.apply(log.append(*[put(b"k", b"%d" % number) for number in range(5)], put(b"other", b"0")))
    assert [index.get_past([b"k"], PastPoint(Offset(at))).values for at in (2, 3, 4)] == [[b"2"], [b"3"], [b"4"]]
    with pytest.raises(HistoryGone, match=r"begins at offset 2|offset 1") as gone:
        index.get_past([b"k"], PastPoint(Offset(1)))
    assert gone.value.fields == {"asked": 1, "earliest": 2}
    assert index.get_past([b"other"], PastPoint(Offset(1))).values == [None]


def test_of_some_time_the_first_offset_that_is_kept_is_named(new_index: NewIndex) -> None:
    log, index = StoredLog(), new_index(KeptHistory(age_ms=100))
    for number in range(6):
        index.apply(log.append(put(b"k", b"%d" % number), later_ms=40))
    # The log's time is 240; the state at 140 was that of offset 2, of the time 120.
    assert index.get_past([b"k"], PastPoint(Offset(2))).values == [b"2"]
    with pytest.raises(HistoryGone) as gone:
        index.get_past([b"k"], PastPoint(Offset(1)))
    assert gone.value.fields == {"asked": 1, "earliest": 2}
    assert [each.offset for each in index.versions(b"k", NEWEST, limit=9)[1]] == [5, 4, 3, 2]


def test_a_table_without_a_history_says_so(new_index: NewIndex) -> None:
    index = new_index(None)
    index.apply(StoredLog().append(put(b"k", b"1")))
    with pytest.raises(InvalidRequest, match="keeps no history"):
        index.get_past([b"k"], PastPoint(Offset(0)))
    with pytest.raises(InvalidRequest, match="keeps no history"):
        index.versions(b"k", NEWEST, limit=1)


def test_a_standby_keeps_a_past_of_its_own(tmp_path: Path) -> None:
    """As a replica clears a table: the empty version follows the live one from an offset on."""
    batches = random_batches(Random(7), 60)
    definition = TableDefinition(keeps=ALL)
    live = LmdbIndex.open(tmp_path / "live", partition=PLACE, definition=definition)
    standby = LmdbIndex.open(tmp_path / "standby", partition=PLACE, definition=definition)
    standby.become(2)
    begun, seen = NOTHING, dict[Offset, list[bytes | None]]()
    for number, batch in enumerate(batches):
        decoded = [decode_batch(batch)]
        effects = live.fold_in(decoded)
        if number == 19:
            standby.begin_behind(live.applied)
            standby.level_with(live)
            begun = live.applied
            seen[begun] = [None] * len(KEYS)
        elif number >= 20:
            standby.fold_in(decoded, decided=changed_nothing(effects.judgements), carried=effects)
            seen[live.applied] = standby.get_many(KEYS).values
    for at, values in seen.items():
        assert standby.get_past(KEYS, PastPoint(at)).values == values
    with pytest.raises(HistoryGone) as gone:
        standby.get_past(KEYS, PastPoint(Offset(begun - 1)))
    assert gone.value.fields == {"asked": begun - 1, "earliest": begun}
    standby.close()
    live.close()
    again = LmdbIndex.open(tmp_path / "standby", partition=PLACE, definition=definition)
    assert again.get_past(KEYS, PastPoint(begun)).values == seen[begun]
    again.close()


def barrier(offset: Offset, version: int, job: int) -> Batch:
    """The record that makes a version the live one, at an offset."""
    encoded = barrier_batch(Barrier(version, job), producer_id=job, sequence=0)
    return decode_batch(stamp_batch(encoded, base_offset=offset, timestamp_ms=2_000_000_000, unsynced=0))


def go_over(decides: LmdbIndex, follows: LmdbIndex, batch: Batch) -> None:
    effects = decides.fold_in([batch])
    follows.fold_in([batch], decided=changed_nothing(effects.judgements), carried=effects)


def test_what_was_shown_before_a_version_went_live_is_not_its_past(tmp_path: Path) -> None:
    """A clear and its rollback: no version answers for the time in which another one was live."""
    definition = TableDefinition(keeps=ALL)
    full = LmdbIndex.open(tmp_path / "full", partition=PLACE, definition=definition)
    empty = LmdbIndex.open(tmp_path / "empty", partition=PLACE, definition=definition)
    empty.become(2)
    batches = [decode_batch(batch) for batch in random_batches(Random(7), 9)]
    for batch in batches[:6]:
        full.fold_in([batch])
    empty.begin_behind(full.applied)
    empty.level_with(full)
    begun = full.applied
    for batch in batches[6:]:
        go_over(full, empty, batch)
    cleared = Offset(full.applied + 1)
    go_over(empty, full, barrier(cleared, 2, 1))
    for at in (begun, Offset(cleared - 1)):
        with pytest.raises(HistoryGone) as gone:
            empty.get_past(KEYS, PastPoint(at))
        assert gone.value.fields == {"asked": at, "earliest": cleared}
    back = Offset(cleared + 1)
    go_over(full, empty, barrier(back, 1, 2))
    with pytest.raises(HistoryGone) as gone:
        full.get_past(KEYS, PastPoint(cleared))
    assert gone.value.fields == {"asked": cleared, "earliest": back}
    assert full.get_past(KEYS, PastPoint(back)).values == full.get_many(KEYS).values
    for index in (full, empty):
        index.close()
