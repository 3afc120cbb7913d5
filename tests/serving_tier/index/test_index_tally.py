"""What an index counts of the log: in the transaction of the fold, so once, and through every close."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.log.stored_log import PARTITION, TABLE, StoredLog, add, noop, put

from log_tier.model.batch_header import read_header
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.tally.count import count_pieces
from serving_tier.index.index import Index
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex


@pytest.fixture(params=["memory", "lmdb"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Index]:
    opened: Index = MemoryIndex() if request.param == "memory" else lmdb_index(tmp_path)
    yield opened
    opened.close()


def lmdb_index(folder: Path) -> LmdbIndex:
    return LmdbIndex.open(folder / "index", partition=PartitionId(TABLE, PARTITION))


def minutes_of_log(log: StoredLog) -> list[bytes]:
    """Seven offsets in two minutes, a batch that changes nothing among them."""
    chunks = [log.append(put(b"a", b"1"), add(b"a", b"x"), producer_id=5, sequence=40) for _ in range(2)]
    chunks.append(log.append(noop(), later_ms=19_999))
    chunks.append(log.append(put(b"b", b"1"), put(b"c", b"1"), later_ms=1))
    return chunks


def test_it_counts_what_it_folded_minute_by_minute(index: Index) -> None:
    assert index.tally() == (0, -1, ())
    chunks = minutes_of_log(StoredLog())
    for chunk in chunks:
        index.apply(chunk)
        counted = index.tally()
        index.apply(chunk)
        assert index.tally() == counted, "a batch that comes again is counted once"
    headers = [read_header(chunk) for chunk in chunks]
    assert counted == (0, 6, tuple(count_pieces(headers, start=Offset(0), ends=[])))
    assert [(period.first, period.last, period.offsets) for period in counted.periods] == [(0, 4, 5), (5, 6, 2)]


def test_a_batch_that_an_index_never_got_is_missing_in_its_tally(index: Index) -> None:
    chunks = minutes_of_log(StoredLog())
    for chunk in (chunks[0], *chunks[2:]):
        index.apply(chunk)
    first, _ = index.tally().periods
    assert (first.first, first.last, first.offsets, first.is_dense) == (0, 4, 3, False)


@pytest.mark.parametrize("clean", [True, False])
def test_it_goes_on_where_it_was_after_every_close(clean: bool, tmp_path: Path) -> None:
    chunks = minutes_of_log(StoredLog())
    whole = MemoryIndex()
    index = lmdb_index(tmp_path)
    for chunk in chunks:
        index.apply(chunk)
        whole.apply(chunk)
        index.close(clean=clean)
        index = lmdb_index(tmp_path)
        assert index.tally() == whole.tally()
    index.close()
