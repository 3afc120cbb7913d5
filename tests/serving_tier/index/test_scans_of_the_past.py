"""Scans of the past and comparisons, in either index: what a fold of the log up to each place has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kit.index.past_batches import KEYS, random_batches
from kit.log.stored_log import PARTITION, TABLE, StoredLog, delete, put

from log_tier.model.errors import HistoryGone, InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.kept_history import KeptHistory
from log_tier.model.record import Expiry
from log_tier.rows.definition import TableDefinition
from serving_tier.index.index import PastPage, PastPoint
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex

PLACE = PartitionId(TABLE, PARTITION)
ALL, THREE, LATELY = KeptHistory(), KeptHistory(versions=3), KeptHistory(age_ms=60)
Opens = Callable[[KeptHistory | None], Any]
Row = tuple[bytes, bytes, int]


@pytest.fixture(params=["in memory", "on disk"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opens]:
    made: list[Any] = []

    def opened(keeps: KeptHistory | None) -> Any:
        definition = TableDefinition(keeps=keeps)
        in_memory = request.param == "in memory"
        made.append(
            MemoryIndex(definition=definition)
            if in_memory
            else LmdbIndex.open(tmp_path / f"index{len(made)}", partition=PLACE, definition=definition)
        )
        return made[-1]

    yield opened
    for index in made:
        index.close()


def past_pages_of(
    index: Any, point: PastPoint, start: bytes = b"", end: bytes | None = None, *, reverse: bool = False, **how: Any
) -> Iterator[PastPage]:
    """The pages of a scan, as a client asks for them: all in the state of the first one."""
    while end is None or start < end:
        page: PastPage = index.scan_past(start, end, point, reverse=reverse, **how)
        yield page
        if not page.more:
            return
        point = PastPoint(page.applied)
        if reverse:
            end = page.reached
        else:
            start = page.reached + b"\0"


def past_rows_of(index: Any, point: PastPoint, *bounds: Any, **how: Any) -> list[Row]:
    pages = list(past_pages_of(index, point, *bounds, **how))
    return [row for page in pages for row in zip(page.keys, page.values, page.versions, strict=True)]


def folds(batches: list[bytes]) -> dict[Offset, list[Row]]:
    """The whole table at the end of each batch, of an index that keeps nothing."""
    index, seen = MemoryIndex(), {}
    for batch in batches:
        index.apply(batch)
        page = index.scan(b"", None)
        seen[index.applied] = list(zip(page.keys, page.values, page.versions, strict=True))
    return seen


@pytest.mark.parametrize("keeps", [ALL, THREE, LATELY], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_each_state_is_that_of_a_fold(opens: Opens, keeps: KeptHistory, seed: int) -> None:
    chance = Random(f"scans {seed}")
    batches = random_batches(chance, 40)
    seen, index, named, shown = folds(batches), opens(keeps), list[tuple[int, int, int]](), 0
    while batches:
        cut = chance.randrange(1, 12)
        index.apply(b"".join(batches[:cut]))
        batches = batches[cut:]
        for at, rows in seen.items():
            if at > index.applied:
                break
            start, end = sorted(chance.sample([b"", *KEYS], 2))
            reverse, limit = chance.random() < 0.5, chance.choice([1, 2, 100])
            wanted = [row for row in rows if start <= row[0] < end]
            try:
                found = past_rows_of(index, PastPoint(at), start, end, reverse=reverse, limit=limit)
            except HistoryGone as error:
                named.append((at, int(str(error.fields["earliest"])), index.applied))
                continue
            shown += 1
            assert found == (wanted[::-1] if reverse else wanted), (at, start, end)
    assert shown
    assert bool(named) == (keeps is not ALL)
    assert all(at < earliest <= applied for at, earliest, applied in named)


@pytest.mark.parametrize("keeps", [ALL, LATELY], ids=str)
def test_a_comparison_is_the_difference_of_two_folds(opens: Opens, keeps: KeptHistory) -> None:
    chance = Random(f"comparisons {keeps}")
    batches = random_batches(chance, 60)
    seen, index, differing = folds(batches), opens(keeps), 0
    for batch in batches:
        index.apply(batch)
    for _ in range(200):
        one, other = chance.sample(sorted(seen), 2)
        before, after = ({key: value for key, value, _ in seen[at]} for at in (one, other))
        wanted = [
            (key, before.get(key), after.get(key))
            for key in sorted({*before, *after})
            if before.get(key) != after.get(key)
        ]
        how: dict[str, Any] = {"compared": PastPoint(one), "limit": chance.choice([1, 3, 100])}
        try:
            pages = list(past_pages_of(index, PastPoint(other), **how))
        except HistoryGone:
            assert keeps is LATELY
            continue
        assert [row for page in pages for row in compared_rows(page)] == wanted, (one, other)
        differing += len(wanted)
    assert differing


def compared_rows(page: PastPage) -> list[tuple[bytes, bytes | None, bytes | None]]:
    columns = (page.keys, page.before, page.before_versions, page.values, page.versions)
    return [
        (key, None if had < 0 else before, None if has < 0 else value)
        for key, before, had, value, has in zip(*columns, strict=True)
    ]


def test_what_was_deleted_and_put_again_differs(opens: Opens) -> None:
    log, index = StoredLog(), opens(ALL)
    for said in (
        put(b"k", b"1"),
        put(b"same", b"1"),
        delete(b"k"),
        delete(b"same"),
        put(b"k", b"2"),
        put(b"same", b"1"),
    ):
        index.apply(log.append(said))
    page = index.scan_past(b"", None, PastPoint(), compared=PastPoint(Offset(1)))
    assert compared_rows(page) == [(b"k", b"1", b"2")], "a key that has the same value again does not differ"
    assert (page.applied, page.more) == (5, False)
    back = index.scan_past(b"", None, PastPoint(Offset(1)), compared=PastPoint())
    assert compared_rows(back) == [(b"k", b"2", b"1")]
    gone = index.scan_past(b"", None, PastPoint(Offset(3)), compared=PastPoint(Offset(1)))
    assert compared_rows(gone) == [(b"k", b"1", None), (b"same", b"1", None)]


def test_an_expiry_is_a_difference(opens: Opens) -> None:
    log, index = StoredLog(), opens(ALL)
    index.apply(log.append(put(b"k", b"1", expiry=Expiry.TTL, expiry_ms=10)))
    index.apply(log.append(put(b"other", b"1"), later_ms=5))
    index.apply(log.append(put(b"other", b"2"), later_ms=20))
    assert past_rows_of(index, PastPoint(Offset(1))) == [(b"k", b"1", 0), (b"other", b"1", 1)]
    page = index.scan_past(b"", None, PastPoint(), compared=PastPoint(Offset(1)))
    assert compared_rows(page) == [(b"k", b"1", None), (b"other", b"1", b"2")]


def test_a_page_ends_where_many_keys_had_nothing(opens: Opens) -> None:
    """1000 keys that are gone lie before the one that is there: each page says how far it has come."""
    log, index = StoredLog(), opens(ALL)
    many = [b"k%03d" % number for number in range(1000)]
    index.apply(log.append(*[put(key, b"") for key in many]))
    index.apply(log.append(*[delete(key) for key in many]))
    index.apply(log.append(put(b"z", b"1")))
    index.apply(log.append(put(b"z", b"2")))
    point = PastPoint(Offset(2000))
    pages = list(past_pages_of(index, point, limit=2))
    assert [len(page.keys) for page in pages] == [0] * 10 + [1]
    assert [page.reached for page in pages] == [*many[99::100], b""]
    assert next(page.reached for page in past_pages_of(index, point, limit=2, reverse=True)) == many[-99]
    whole = past_rows_of(index, PastPoint(Offset(999)), limit=100)
    assert [key for key, _, _ in whole] == many


def test_a_page_has_as_many_bytes_as_are_asked_for(opens: Opens) -> None:
    log, index = StoredLog(), opens(ALL)
    index.apply(log.append(*[put(b"%d" % number, b"v" * 100) for number in range(9)]))
    index.apply(log.append(*[put(b"%d" % number, b"w" * 100) for number in range(9)]))
    pages = list(past_pages_of(index, PastPoint(Offset(8)), bytes_max=200))
    assert [len(page.keys) for page in pages] == [2, 2, 2, 2, 1]
    compared = list(past_pages_of(index, PastPoint(), bytes_max=400, compared=PastPoint(Offset(8))))
    assert [len(page.keys) for page in compared] == [2, 2, 2, 2, 1]


def test_of_a_key_with_more_changes_the_first_offset_is_named(opens: Opens) -> None:
    log, index = StoredLog(), opens(KeptHistory(versions=2))
    index.apply(log.append(put(b"a", b"0"), *[put(b"k", b"%d" % number) for number in range(5)]))
    with pytest.raises(HistoryGone) as gone:
        index.scan_past(b"", None, PastPoint(Offset(2)))
    assert gone.value.fields == {"asked": 2, "earliest": 3}
    assert past_rows_of(index, PastPoint(Offset(3))) == [(b"a", b"0", 0), (b"k", b"2", 3)]
    assert past_rows_of(index, PastPoint(Offset(2)), b"", b"k") == [(b"a", b"0", 0)]


def test_it_needs_a_history(opens: Opens) -> None:
    index = opens(None)
    index.apply(StoredLog().append(put(b"k", b"1")))
    with pytest.raises(InvalidRequest, match="keeps no history"):
        index.scan_past(b"", None, PastPoint(Offset(0)))
    assert past_rows_of(opens(ALL), PastPoint(NOTHING)) == []
