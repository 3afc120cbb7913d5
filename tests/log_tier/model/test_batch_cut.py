"""Where a run is cut before it is folded."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from kit.log.stored_log import Said, StoredLog, put

from log_tier.model.barrier import LiveVersion
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.batch_cut import cut_run
from log_tier.model.batch_header import split_batches
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.record import Operation
from serving_tier.replica.pieces import cut_at, first_piece

LIVE = LiveVersion(1, NOTHING, 4)


def barrier(version: int, job: int) -> Said:
    return Said(Operation.BARRIER, b"", json.dumps({"v": 1, "version": version, "job": job}).encode())


def stored(*batches: list[Said]) -> list[Batch]:
    log = StoredLog()
    return [decode_batch(log.append(*said)) for said in batches]


def test_a_barrier_in_the_middle_of_a_batch() -> None:
    run = stored([put(b"a")], [put(b"b"), barrier(2, 5), put(b"c")], [put(b"d")])
    piece = first_piece(run, applied=NOTHING, version=1, live=LIVE)
    assert (piece.stop, [key for batch in piece.batches for key in batch.columns.keys]) == ("barrier", [b"a", b"b"])
    assert piece.batches[-1].header.last_offset == 1
    ahead = piece.barrier
    assert ahead is not None
    assert (ahead.offset, ahead.barrier.version) == (2, 2)
    assert [batch.header.last_offset for batch in ahead.batches] == [2]
    assert ahead.rest == run[1:], "the fold skips what is applied"
    again = first_piece(ahead.rest, applied=Offset(2), version=2, live=LiveVersion(2, Offset(2), 5))
    assert (again.stop, again.batches) == ("end", run[1:])


def test_a_barrier_by_itself_leaves_nothing_of_its_batch() -> None:
    run = stored([barrier(2, 5)], [put(b"d")])
    piece = first_piece(run, applied=NOTHING, version=1, live=LIVE)
    assert (piece.batches, piece.stop) == ([], "barrier")
    assert piece.barrier is not None
    assert piece.barrier.rest == run[1:]


def test_what_is_no_barrier_to_another_version() -> None:
    late, own = barrier(2, 4), barrier(1, 9)
    grouped = [barrier(2, 9), put(b"a", grouped=True)]
    nonsense = Said(Operation.BARRIER, b"", b"{}")
    run = stored([late], [own], grouped, [nonsense], [barrier(2, 9)])
    piece = first_piece(run[:4], applied=NOTHING, version=1, live=LIVE)
    assert piece.stop == "end"
    assert first_piece(run, applied=Offset(run[-1].header.last_offset), version=1, live=LIVE).stop == "end"


def test_a_pinned_read_lies_before_a_barrier() -> None:
    run = stored([put(b"a")], [put(b"b"), put(b"c")], [barrier(2, 5)])
    piece = first_piece(run, applied=NOTHING, version=1, live=LIVE, pinned=Offset(1))
    assert (piece.stop, piece.batches, piece.rest) == ("pinned", run[:2], run[2:])


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=5), st.integers(-1, 20))
def test_decoded_batches_are_cut_as_encoded_ones_are(shapes: list[list[bool]], last: int) -> None:
    log = StoredLog()
    data = b"".join(
        log.append(*(put(b"k%d" % at, grouped=grouped and at > 0) for at, grouped in enumerate(shape)))
        for shape in shapes
    )
    cut = cut_at([decode_batch(batch) for batch in split_batches(data)], Offset(last))
    expected = [decode_batch(batch) for batch in split_batches(cut_run(data, Offset(last)))]
    assert [batch.header.last_offset for batch in cut] == [batch.header.last_offset for batch in expected]
    for ours, theirs in zip(cut, expected, strict=True):
        assert list(ours.offsets()) == list(theirs.offsets())
        assert (list(ours.columns.keys), list(ours.columns.values)) == (
            list(theirs.columns.keys),
            list(theirs.columns.values),
        )
        assert ours.header.records == theirs.header.records
