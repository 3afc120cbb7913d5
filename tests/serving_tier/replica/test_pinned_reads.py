"""Reads at one exact offset: where chunks are cut, and a replica that is held there for as long as opening takes."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.deadlines import patience_s, until
from kit.index.one_replica import ReplicaSetting
from kit.log.stored_log import StoredLog, columns_of, put

from log_tier.model.barrier import ORIGINAL
from log_tier.model.batch import Batch, decode_batch, encode_batch
from log_tier.model.errors import OffsetPassed, Overloaded, ReplicaBehind, ShuttingDown
from log_tier.model.identifiers import NOTHING, Offset, Partition
from serving_tier.index.lmdb.pinned_read import PinnedRead
from serving_tier.replica.pieces import first_piece
from serving_tier.replica.pinned_reads import PINNED_READS_MAX
from serving_tier.replica.replica import Replica

ZERO = Partition(0)
DEADLINE_S = 20


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.lists(st.integers(-1, 30), max_size=4),
    st.integers(0, 4),
)
def test_a_chunk_is_cut_behind_the_first_batch_that_reaches_each_offset(
    sizes: list[int], offsets: list[int], skipped: int
) -> None:
    log = StoredLog()
    batches = [log.append(*[put(b"k")] * size) for size in sizes][skipped:]
    run = [decode_batch(batch) for batch in batches]
    wanted = sorted(map(Offset, offsets))
    rest: Sequence[Batch] = run
    pieces: list[Batch] = []
    cuts: list[Offset] = []
    while rest:
        piece = first_piece(rest, applied=NOTHING, version=1, live=ORIGINAL, pinned=wanted[0] if wanted else None)
        pieces += piece.batches
        rest = piece.rest
        if piece.stop == "pinned":
            cuts.append(piece.batches[-1].header.last_offset)
        wanted = [offset for offset in wanted if offset > pieces[-1].header.last_offset]
    assert pieces == run
    ends = [batch.header.last_offset for batch in run]
    first_ends = {min((end for end in ends if end >= offset), default=None) for offset in map(Offset, offsets)}
    assert cuts == sorted(end for end in first_ends if end is not None)


def values(pinned: PinnedRead) -> dict[bytes, bytes]:
    return {key: stored[8:] for key, stored in pinned.pairs()}


async def test_where_it_stands_already_it_is_read_at_once(setting: ReplicaSetting, replica: Replica) -> None:
    with await replica.at_offset(Offset(-1), timeout=0) as pinned:
        assert (pinned.applied, values(pinned)) == (-1, {})
    last = await setting.write(b"a", b"b")
    await replica.wait_applied(last, timeout=DEADLINE_S)
    with await replica.at_offset(last, timeout=0) as pinned:
        assert (pinned.applied, sorted(values(pinned))) == (1, [b"a", b"b"])


async def test_a_pinned_read_sees_one_state(setting: ReplicaSetting, replica: Replica) -> None:
    await replica.wait_applied(await setting.write(b"a", value=b"1"), timeout=DEADLINE_S)
    with await replica.at_offset(Offset(0), timeout=0) as pinned:
        await replica.wait_applied(await setting.write(b"a", b"b", value=b"2"), timeout=DEADLINE_S)
        assert values(pinned) == {b"a": b"1"}
    assert replica.index.get_value(b"a") == b"2"


async def test_an_offset_ahead_is_waited_for_and_hit(setting: ReplicaSetting, replica: Replica) -> None:
    ahead = asyncio.ensure_future(replica.at_offset(Offset(3), timeout=DEADLINE_S))
    await asyncio.sleep(0)
    # One commit, so they come in one chunk, which has to be cut.
    batches = [encode_batch(columns_of([put(b"%d" % n), put(b"x", b"%d" % n)])) for n in range(5)]
    await setting.log.append_many([(setting.topic.partition(ZERO), batch) for batch in batches])
    with await ahead as pinned:
        assert (pinned.applied, values(pinned)) == (3, {b"0": b"", b"1": b"", b"x": b"1"})
    await replica.wait_applied(Offset(9), timeout=DEADLINE_S)


async def test_a_read_pinned_inside_a_batch_is_at_its_end(setting: ReplicaSetting, replica: Replica) -> None:
    ahead = asyncio.ensure_future(replica.at_offset(Offset(1), timeout=DEADLINE_S))
    await asyncio.sleep(0)
    await setting.write(b"a", b"b", b"c")
    await setting.write(b"d")
    with await ahead as pinned:
        assert pinned.applied == 2


async def test_one_that_is_further_says_where_it_is(setting: ReplicaSetting, replica: Replica) -> None:
    await replica.wait_applied(await setting.write(b"a", b"b"), timeout=DEADLINE_S)
    with pytest.raises(OffsetPassed, match="flights/0 has applied 1, beyond 0: ask for a later") as caught:
        await replica.at_offset(Offset(0), timeout=DEADLINE_S)
    assert caught.value.fields == {"partition": 0, "asked": 0, "applied": 1}
    assert len(replica.index.readers) == 0


async def test_what_is_being_applied_is_waited_for(setting: ReplicaSetting, replica: Replica) -> None:
    """While the applier has a batch, nobody knows at which of two offsets the index is."""
    await replica.wait_applied(await setting.write(b"a"), timeout=DEADLINE_S)
    may_go_on, holds = threading.Event(), threading.Event()

    def hold() -> None:
        holds.set()
        assert may_go_on.wait(patience_s(DEADLINE_S))

    holding = asyncio.ensure_future(setting.applier.run(hold))
    assert await asyncio.to_thread(holds.wait, patience_s(DEADLINE_S))
    await setting.write(b"b")
    await until(replica.versions.lock.locked, seconds=DEADLINE_S)  # the batch is the applier's
    reading = asyncio.ensure_future(replica.at_offset(Offset(0), timeout=DEADLINE_S))
    for _ in range(10):
        await asyncio.sleep(0)
    is_early = reading.done()
    may_go_on.set()
    await holding
    with pytest.raises(OffsetPassed, match="has applied 1, beyond 0"):
        (await reading).close()
    assert not is_early


async def test_past_its_time_the_error_names_both_offsets(setting: ReplicaSetting, replica: Replica) -> None:
    with pytest.raises(ReplicaBehind, match=r"has applied -1, and should be read at 5; the log ends at -1"):
        await replica.at_offset(Offset(5), timeout=0.01)
    await replica.wait_applied(await setting.write(*[b"k"] * 9), timeout=DEADLINE_S)
    assert len(replica.index.readers) == 0


async def test_a_caller_that_went_away_leaves_nothing_open(setting: ReplicaSetting, replica: Replica) -> None:
    waiting = asyncio.ensure_future(replica.at_offset(Offset(0), timeout=DEADLINE_S))
    await asyncio.sleep(0)
    waiting.cancel()
    await replica.wait_applied(await setting.write(b"a"), timeout=DEADLINE_S)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(replica.index.readers) == 0


async def test_there_are_not_more_than_a_few(setting: ReplicaSetting, replica: Replica) -> None:
    pinned_reads = [await replica.at_offset(Offset(-1), timeout=0) for _ in range(PINNED_READS_MAX - 1)]
    waiting = asyncio.ensure_future(replica.at_offset(Offset(0), timeout=DEADLINE_S))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="reads of replica flights/0 at fixed offsets"):
        await replica.at_offset(Offset(0), timeout=0)
    pinned_reads.pop().close()
    pinned_reads.append(await replica.at_offset(Offset(-1), timeout=0))
    await setting.write(b"a")
    pinned_reads.append(await waiting)
    for pinned in pinned_reads:
        pinned.close()
        pinned.close()
    assert len(replica.index.readers) == 0


async def test_a_caller_that_went_away_leaves_its_place_to_another(setting: ReplicaSetting, replica: Replica) -> None:
    for _ in range(2):
        waiting = [
            asyncio.ensure_future(replica.at_offset(Offset(0), timeout=DEADLINE_S)) for _ in range(PINNED_READS_MAX)
        ]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await replica.at_offset(Offset(0), timeout=0)
        for each in waiting:
            each.cancel()
        gone = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(each) for each in gone} == {asyncio.CancelledError}
    await replica.wait_applied(await setting.write(b"a"), timeout=DEADLINE_S)


async def test_closing_fails_those_who_wait_and_waits_for_those_who_read(
    setting: ReplicaSetting, replica: Replica
) -> None:
    pinned = await replica.at_offset(Offset(-1), timeout=0)
    waiting = asyncio.ensure_future(replica.at_offset(Offset(7), timeout=DEADLINE_S))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(replica.close())
    with pytest.raises(ShuttingDown, match="flights/0 is closing"):
        await waiting
    with pytest.raises(ShuttingDown, match="flights/0 is closing"):
        replica.check_open()
    done, _ = await asyncio.wait({closing}, timeout=0.05)
    assert not done
    pinned.close()
    await closing
    with pytest.raises(ShuttingDown):
        await replica.at_offset(Offset(-1), timeout=0)


async def test_two_replicas_meet_at_one_offset_while_writes_go_on(setting: ReplicaSetting, replica: Replica) -> None:
    other = await setting.open("1")
    random_keys = random.Random(7)
    stop = asyncio.Event()

    async def write() -> None:
        while not stop.is_set():
            await setting.write(*[b"%d" % random_keys.randrange(50) for _ in range(random_keys.randrange(1, 9))])

    writing = asyncio.ensure_future(write())
    try:
        met = 0
        while met < 20:
            offset = Offset(max(replica.progress.latest, other.progress.latest) + random_keys.randrange(1, 60))
            pinned_reads = await asyncio.gather(
                replica.at_offset(offset, timeout=DEADLINE_S),
                other.at_offset(offset, timeout=DEADLINE_S),
                return_exceptions=True,
            )
            if any(isinstance(pinned, OffsetPassed) for pinned in pinned_reads):
                for pinned in pinned_reads:
                    if isinstance(pinned, PinnedRead):
                        pinned.close()
                continue  # the writer was faster: ask for a later one, as `verify` does
            first, second = pinned_reads
            assert isinstance(first, PinnedRead)
            assert isinstance(second, PinnedRead)
            with first, second:
                assert first.applied == second.applied >= offset
                assert list(first.pairs()) == list(second.pairs())
                met += 1
    finally:
        stop.set()
        await writing
        await other.close()


async def test_a_caller_that_gives_up_in_the_turn_in_which_its_offset_is_reached_is_forgotten(
    setting: ReplicaSetting, replica: Replica
) -> None:
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    await replica.wait_applied(await setting.write(b"a"), timeout=DEADLINE_S)
    pinned_reads = replica._pinned_reads
    future = pinned_reads.want(Offset(0))
    future.cancel()
    pinned_reads.reach(cut=None)  # before the loop tells of the cancelling
    await asyncio.sleep(0)
    pinned_reads.check()
    assert failures == []
    with await replica.at_offset(Offset(0), timeout=0) as pinned:
        assert pinned.applied == 0


async def test_an_index_that_cannot_be_read_fails_the_caller_and_nobody_else(
    setting: ReplicaSetting, replica: Replica
) -> None:
    class ReadersFull:
        applied = Offset(0)

        def pinned(self) -> PinnedRead:
            raise Overloaded("all readers are taken", limit=1)

    await replica.wait_applied(await setting.write(b"a"), timeout=DEADLINE_S)
    pinned_reads, index = replica._pinned_reads, replica.progress.index
    failing = pinned_reads.want(Offset(0))
    replica.progress.index = ReadersFull()  # type: ignore[assignment]
    pinned_reads.reach(cut=None)
    replica.progress.index = index
    with pytest.raises(Overloaded, match="all readers are taken"):
        await asyncio.wait_for(failing, DEADLINE_S)
    pinned_reads.check()
    with await replica.at_offset(Offset(0), timeout=0) as pinned:
        assert pinned.applied == 0
