"""Ordered indexes in either index: at every offset an entry is there if and only if its row is."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pytest
from kit.flight_rows import FLIGHT_SCHEMA, FLIGHTS, LATER_SCHEMA, flight, flight_key, later_flight
from kit.log.stored_log import PARTITION, TABLE, Said, StoredLog, put

from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import IndexDamaged, InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.record import Condition, Expiry, Operation
from log_tier.rows.elements import encode_element
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.framing import framed
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import TableIndex
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.shared_reader import IndexReader
from serving_tier.index.memory_index import MemoryIndex

PLACE = PartitionId(TABLE, PARTITION)
BY_TAIL = TableIndex(1, "by_tail", ("tailnum", "dep_delay"))
BY_DELAY = TableIndex(5, "by_delay", ("dep_delay",))
LATE = TableIndex(6, "late", ("tailnum",), conditions_of({"dep_delay": (0.5, None), "tailnum": ("", None)}, FLIGHTS))
INDEXED = replace(FLIGHTS, indexes=(BY_TAIL, BY_DELAY, LATE))
LATER = INDEXED.with_schema(NumberedSchema(2, RowSchema.parse(LATER_SCHEMA)))
SCHEMAS = {1: FLIGHT_SCHEMA, 2: LATER_SCHEMA}
NewIndex = Callable[[], Any]


@pytest.fixture(params=["in memory", "on disk"])
def new_index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewIndex]:
    made: list[Any] = []

    def make() -> Any:
        folder = tmp_path / f"index{len(made)}"
        made.append(
            MemoryIndex(definition=INDEXED)
            if request.param == "in memory"
            else LmdbIndex.open(folder, partition=PLACE, definition=INDEXED)
        )
        return made[-1]

    yield make
    for index in made:
        index.close()


def row_of(value: bytes) -> dict[str, Any]:
    number, body = framed(value)
    row = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(dict(SCHEMAS[number])), None)
    assert isinstance(row, dict)
    return row


def expected(index: Any, of: TableIndex) -> list[bytes]:
    """What the index must have, made of a scan of its rows."""
    rows = [(key, row_of(entry.value)) for key, entry in index.scan(b"", None, limit=10_000).entries]
    if of is LATE:
        rows = [(key, row) for key, row in rows if row["dep_delay"] >= 0.5 and row["tailnum"] is not None]
    return sorted(b"".join(encode_element(row[name]) for name in of.fields) + key for key, row in rows)


def found(index: Any, of: TableIndex, **how: Any) -> list[bytes]:
    return [entry for entry, _ in index.find(of, b"", None, **how).entries]


def assert_whole(index: Any) -> None:
    for of in INDEXED.indexes:
        wanted = expected(index, of)
        assert found(index, of, limit=10_000) == wanted
        assert found(index, of, limit=10_000, reverse=True) == wanted[::-1]


def random_said(random: Random, *, grouped: bool) -> Said:
    carrier, number = random.choice(["UA", "DL"]), random.randrange(6)
    key = flight_key(carrier, number)
    condition = random.choice([Condition.NONE, Condition.NONE, Condition.ABSENT, Condition.PRESENT])
    if random.random() < 0.25:
        return Said(Operation.DELETE, key, condition=condition, grouped=grouped)
    tailnum, delay = random.choice([None, "N1", "N2"]), random.choice([0.0, -0.0, 1.5, -3.0])
    value = random.choice(
        [flight(carrier, number, tailnum, delay), later_flight(carrier, number, tailnum=tailnum), b"no row"]
    )
    expiry = random.choice([Expiry.NONE, Expiry.NONE, Expiry.TTL, Expiry.KEEP])
    ttl = 20 if expiry is Expiry.TTL else 0
    return Said(Operation.PUT, key, value, condition, 0, expiry, ttl, grouped)


class IndexedLog(StoredLog):
    def random_batches(self, random: Random, count: int) -> list[bytes]:
        made: list[bytes] = []
        for number in range(count):
            self.time_ms += random.randrange(15)
            if number == count // 2:
                barrier = barrier_batch(Barrier(1, 3, definition=LATER.text), producer_id=5, sequence=0)
                made.append(
                    stamp_batch(barrier, base_offset=Offset(self.next_offset), timestamp_ms=self.time_ms, unsynced=0)
                )
                self.next_offset += 1
                continue
            said = [random_said(random, grouped=bool(each and random.random() < 0.3)) for each in range(4)]
            made.append(self.append(*said))
        return made


@pytest.mark.parametrize("seed", range(12))
def test_entries_are_those_of_the_rows_wherever_a_chunk_ends(new_index: NewIndex, seed: int) -> None:
    random, log = Random(seed), IndexedLog()
    batches = log.random_batches(random, 60)
    one, other = new_index(), new_index()
    at = 0
    while at < len(batches):
        size = random.randrange(1, 6)
        one.apply(b"".join(batches[at : at + size]))
        assert_whole(one)
        at += size
    other.apply(b"".join(batches))
    assert_whole(other)
    assert [found(one, each) for each in INDEXED.indexes] == [found(other, each) for each in INDEXED.indexes]
    assert len(found(one, BY_TAIL)) == one.count() > 0


def test_an_expired_row_is_not_found_and_leaves_no_entry(new_index: NewIndex) -> None:
    log, index = StoredLog(), new_index()
    index.apply(log.append(put(flight_key("UA", 1), flight("UA", 1, "N1"), expiry=Expiry.TTL, expiry_ms=10)))
    index.apply(log.append(put(flight_key("UA", 2), flight("UA", 2, "N1"), expiry=Expiry.TTL, expiry_ms=10)))
    assert len(found(index, BY_TAIL)) == 2
    log.time_ms += 50
    index.apply(log.append(put(flight_key("UA", 2), flight("UA", 2, "N2"))))
    assert found(index, BY_TAIL) == expected(index, BY_TAIL)
    assert len(found(index, BY_TAIL)) == 1
    stored = index._ordered if isinstance(index, MemoryIndex) else ordered_rows(index)
    assert len(stored) == 2, "one row, two indexes"


def ordered_rows(index: LmdbIndex) -> list[bytes]:
    with index._reading() as txn:
        return list(txn.cursor(index._databases.ordered).iternext(values=False))


def test_pages_ranges_and_both_directions(new_index: NewIndex) -> None:
    log, index = StoredLog(), new_index()
    for number in range(30):
        index.apply(log.append(put(flight_key("UA", number), flight("UA", number, f"N{number % 3}", float(number)))))
    first = index.find(BY_TAIL, encode_element("N1"), encode_element("N2"), limit=4)
    assert (first.more, first.applied) == (True, 29)
    assert [row_of(entry.value)["flight"] for _, entry in first.entries] == [1, 4, 7, 10]
    second = index.find(BY_TAIL, first.entries[-1][0] + b"\0", encode_element("N2"), limit=100)
    assert [row_of(entry.value)["flight"] for _, entry in second.entries] == [13, 16, 19, 22, 25, 28]
    assert not second.more
    last = index.find(BY_TAIL, b"", encode_element("N2"), limit=2, reverse=True)
    assert [row_of(entry.value)["flight"] for _, entry in last.entries] == [28, 25]
    assert [
        row_of(entry.value)["flight"] for _, entry in index.find(BY_DELAY, b"", None, reverse=True, limit=1).entries
    ] == [29]
    assert index.find(BY_DELAY, b"", None, bytes_max=1).more


def test_an_index_that_the_table_has_not_is_refused(new_index: NewIndex) -> None:
    index = new_index()
    with pytest.raises(InvalidRequest, match="no index 'by_x'; it has by_tail, by_delay, late"):
        index.find(TableIndex(1, "by_x", ("tailnum",)), b"", None)
    with pytest.raises(InvalidRequest, match="another one by now"):
        index.find(replace(BY_TAIL, number=2), b"", None)


def test_a_file_is_opened_again_with_its_entries(tmp_path: Path) -> None:
    log = StoredLog()
    index = LmdbIndex.open(tmp_path / "index", partition=PLACE, definition=INDEXED)
    index.apply(log.append(put(flight_key("UA", 1), flight("UA", 1, "N1"))))
    index.close()
    again = LmdbIndex.open(tmp_path / "index", partition=PLACE, definition=LATER)
    assert_whole(again)
    again.close()
    with pytest.raises(IndexDamaged, match="another definition"):
        LmdbIndex.open(tmp_path / "index", partition=PLACE, definition=FLIGHTS)
    reader = IndexReader.open(tmp_path / "index", partition=PLACE)
    assert reader.get_value(flight_key("UA", 1)) == flight("UA", 1, "N1")
    with pytest.raises(InvalidRequest, match="by key alone"):
        reader.find(BY_TAIL, b"", None)
    reader.close()


def test_a_table_without_indexes_has_no_database_for_them(tmp_path: Path) -> None:
    index = LmdbIndex.open(tmp_path / "index", partition=PLACE, definition=FLIGHTS)
    assert index._databases.ordered is None
    assert index.applied == NOTHING
    index.close()


def test_an_entry_whose_row_is_missing_is_damage(tmp_path: Path) -> None:
    index = LmdbIndex.open(tmp_path / "index", partition=PLACE, definition=INDEXED)
    index.apply(StoredLog().append(put(flight_key("UA", 1), flight("UA", 1, "N1"))))
    with index._write("data") as txn:
        txn.delete(flight_key("UA", 1))
    with pytest.raises(IndexDamaged, match="has no row"):
        index.find(BY_TAIL, b"", None)
    index.close()


def test_a_stored_row_that_is_none_is_damage(tmp_path: Path) -> None:
    index, log = LmdbIndex.open(tmp_path / "index", partition=PLACE, definition=INDEXED), StoredLog()
    index.apply(log.append(put(flight_key("UA", 1), flight("UA", 1, "N1"))))
    with index._write("data") as txn:
        txn.put(flight_key("UA", 1), txn.get(flight_key("UA", 1))[:8] + b"\0\0\0\0\x09")
    with pytest.raises(IndexDamaged, match="no row of the table"):
        index.apply(log.append(put(flight_key("UA", 1), flight("UA", 1, "N2"))))
    index.close()
