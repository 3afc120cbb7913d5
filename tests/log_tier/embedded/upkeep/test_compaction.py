"""Compaction never changes what a log means, wherever a replica starts and whenever the power fails."""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.log.engine_steps import ZERO, copy_of, open_log
from kit.log.in_turns import in_turns
from kit.log.sample_batches import keys_of, plain_batch, read_all
from kit.log.state_model import State, fold

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.barrier import Barrier, barrier_batch, parse_barrier
from log_tier.model.batch import Columns, decode_batch, encode_batch
from log_tier.model.batch_header import read_header, split_batches
from log_tier.model.identifiers import Offset
from log_tier.model.log import Topic
from log_tier.model.record import Condition, Expiry, Operation, attribute_of

SMALL = EngineSettings(segment_bytes=1024, index_every_bytes=200, journal_bytes=1 << 17)
"""Small segments, and a journal that holds more than a test writes: a file of megabytes costs more than its log."""
NOW = replace(SMALL, tombstone_ms=1)
"""Small segments; deletes are old enough to go at once."""
LATER = SMALL
"""Small segments; no delete is old enough to go."""

Record = tuple[Operation, int, int, bytes, bool, int]


OPERATIONS = [Operation.PUT] * 5 + [Operation.DELETE, Operation.ADD, Operation.APPEND, Operation.NOOP]
CONDITIONS = [Condition.NONE] * 4 + [Condition.ABSENT, Condition.PRESENT, Condition.VERSION]
EXPIRIES = [Expiry.NONE] * 4 + [Expiry.TTL, Expiry.AT, Expiry.KEEP]
EVERLASTING = (Operation.NOOP, Operation.DELETE)

FORMS = [
    (operation, condition, Expiry.NONE if operation in EVERLASTING else expiry, key, grouped)
    for operation, condition, expiry in product(OPERATIONS, CONDITIONS, EXPIRIES)
    for key in (b"a", b"b", b"c", b"d", b"e")
    for grouped in (False, True)
]
"""Drawn as one: Hypothesis takes longer for five draws than the log takes for the record."""

records = st.tuples(st.sampled_from(FORMS), st.integers(0, 40)).map(lambda drawn: (*drawn[0], drawn[1]))


def encode(batch: list[Record], producer: int, sequence: int, *, compress: bool) -> bytes:
    """A batch of random records; the number in each is an expiry, a version to ask for, and an operand."""
    attributes = [
        attribute_of(operation, condition=Condition(condition), expiry=Expiry(expiry), grouped=grouped and at > 0)
        for at, (operation, condition, expiry, _, grouped, _) in enumerate(batch)
    ]
    numbers = [record[5] for record in batch]
    return encode_batch(
        Columns(
            [record[3] for record in batch],
            [b"%d" % number for number in numbers],
            attributes,
            numbers,
            [number * 30 for number in numbers],
        ),
        producer_id=producer,
        sequence=sequence,
        compress=compress,
    )


batches_of = st.lists(
    st.tuples(st.lists(records, min_size=1, max_size=5), st.integers(0, 2), st.booleans()), min_size=1, max_size=40
)


async def write(log: EmbeddedLog, topic: Topic, batches: list[tuple[list[Record], int, bool]], repeat: int) -> None:
    """Append batches of up to two producers; now and then one is sent again, as after a lost reply."""
    sequences = {1: 0, 2: 0}
    chance = random.Random(repeat)
    sent: list[bytes] = []
    for batch, producer, compress in batches:
        data = encode(batch, producer, sequences.get(producer, 0), compress=compress)
        if producer:
            sequences[producer] += len(batch)
        sent.append(data)
        await log.append(topic.partition(ZERO), data)
        if chance.random() < 0.2:
            await log.append(topic.partition(ZERO), chance.choice(sent[-6:]))


def last_offset(stored: bytes) -> int:
    return read_header(stored).last_offset


def check_same_meaning(before: list[bytes], after: list[bytes], below: int, *, snapshots: bool) -> None:
    """Both mean the same at every offset from `below - 1` on, also to who starts with the state of any older offset."""
    states = [State()]  # before any batch, and after each
    for data in before:
        states.append(fold(states[-1].copy(), [data]))
    whole = states[-1]
    ends = [last_offset(data) for data in after]
    assert ends == sorted(ends)
    found, folded = State(), 0
    for true in states[1:]:
        end = bisect_right(ends, true.applied)
        found, folded = fold(found, after[folded:end]), end
        if true.applied >= below - 1 or true is whole:
            assert found.live() == true.live(), f"at offset {true.applied}"
    for state in states if snapshots else states[:1]:
        found = fold(state.copy(), after)
        assert found.live() == whole.live(), f"from offset {state.applied}"
        assert found.sequences == whole.sequences
        assert (found.applied, found.time_ms) == (whole.applied, whole.time_ms)


async def check_every_crash(batches: list[bytes]) -> None:
    """Compact a log of these batches, let its process end before each step of that, and compare what is left.

    What a kill leaves is a copy of the disk as it is then, so one compaction shows all of them.
    """
    disk = MemoryDisk()
    survivors: list[MemoryDisk] = []
    async with await open_log(disk, NOW) as log:
        topic = await log.create_topic("flights", partitions=1)
        for batch in batches:
            await log.append(topic.partition(ZERO), batch)
        before = await read_all(log, topic.id)
        disk.on_step = lambda what, path: survivors.append(disk.after_process_end())
        await log.compact(topic.partition(ZERO), Offset(10**6))
        disk.on_step = lambda what, path: None
        after = await read_all(log, topic.id)
        check_same_meaning(before, after, 10**6, snapshots=False)
    assert len(survivors) > 10, "there was something to do"
    for survivor in survivors:
        async with await open_log(survivor, NOW) as log:
            check_same_meaning(before, await read_all(log, topic.id), 10**6, snapshots=False)


def filler(count: int) -> list[bytes]:
    """Batches that fill a segment or so, ten to each."""
    return [plain_batch("filler", value=b"x" * 30) for _ in range(count)]


def one(operation: Operation, key: bytes, value: bytes = b"", **options: int) -> bytes:
    return encode_batch(
        Columns([key], [value], [attribute_of(operation, **options)], [0], [1_000_000]),  # type: ignore[arg-type]
    )


async def test_a_duplicate_never_outlives_its_original() -> None:
    original = plain_batch("k", value=b"old", producer_id=1, sequence=0)
    newest = plain_batch("z", producer_id=1, sequence=1)
    overwrite = plain_batch("k", value=b"new")
    await check_every_crash([original, overwrite, *filler(15), original, newest, *filler(30)])


async def test_a_delete_never_goes_before_what_it_removes() -> None:
    await check_every_crash([plain_batch("k"), *filler(15), one(Operation.DELETE, b"k"), *filler(30)])


async def test_a_delete_stays_while_a_group_keeps_what_it_removes() -> None:
    group = encode_batch(
        Columns(
            [b"a", b"b"],
            [b"1", b"2"],
            [attribute_of(Operation.PUT, condition=Condition.ABSENT), attribute_of(Operation.PUT, grouped=True)],
        )
    )
    await check_every_crash([group, *filler(15), one(Operation.DELETE, b"b"), *filler(30)])


async def test_a_put_that_keeps_an_expiry_needs_the_one_before_it() -> None:
    kept = one(Operation.PUT, b"k", b"new", expiry=Expiry.KEEP)
    await check_every_crash([one(Operation.PUT, b"k", b"old", expiry=Expiry.TTL), *filler(15), kept, *filler(30)])


async def test_what_may_be_a_duplicate_of_a_trimmed_record_covers_nothing() -> None:
    original = plain_batch("k", value=b"old", producer_id=1, sequence=0)
    disk = MemoryDisk()
    async with await open_log(disk, NOW) as log:
        topic = await log.create_topic("flights", partitions=1)
        batches = [original, *filler(15), plain_batch("k", value=b"new"), *filler(15), original, *filler(30)]
        for batch in batches:
            await log.append(topic.partition(ZERO), batch)
        before = await read_all(log, topic.id)
        earliest = await log.trim(topic.partition(ZERO), Offset(15))
        assert earliest > 0
        assert await log.compact(topic.partition(ZERO), Offset(10**6)) > 0
        after = await read_all(log, topic.id, start=earliest)
        snapshot = fold(State(), [data for data in before if last_offset(data) < earliest])
        assert fold(snapshot, after).live()[b"k"][0] == b"new"


@given(batches=batches_of, below=st.integers(0, 150), repeat=st.integers(0, 2**16), keep_deletes=st.booleans())
@settings(max_examples=250, deadline=None)
def test_compacted_logs_mean_the_same(
    batches: list[tuple[list[Record], int, bool]], below: int, repeat: int, keep_deletes: bool
) -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with await open_log(disk, LATER if keep_deletes else NOW) as log:
            topic = await log.create_topic("flights", partitions=1)
            await write(log, topic, batches, repeat)
            before = await read_all(log, topic.id)
            dropped = await log.compact(topic.partition(ZERO), Offset(below))
        async with await open_log(copy_of(disk), LATER) as log:
            assert log.recovery.damages == []
            after = await read_all(log, topic.id)
            assert len(keys_of(before)) - len(keys_of(after)) == dropped
            assert keys_of(after).items() <= keys_of(before).items()
            check_same_meaning(before, after, below, snapshots=keep_deletes)
            await write(log, topic, batches[::-1], repeat + 1)
            full = before + (await read_all(log, topic.id, start=decode_batch(before[-1]).header.last_offset + 1))
            await log.compact(topic.partition(ZERO), Offset(10**6))
            check_same_meaning(full, await read_all(log, topic.id), 10**6, snapshots=keep_deletes)

    in_turns(story)


@given(batches=batches_of, trimmed=st.integers(0, 60), repeat=st.integers(0, 2**16))
@settings(max_examples=150, deadline=None)
def test_a_trimmed_log_is_compacted_with_care(
    batches: list[tuple[list[Record], int, bool]], trimmed: int, repeat: int
) -> None:
    """Who wrote what before the trim is not known any more, so duplicates of it must not cover anything."""

    async def story() -> None:
        disk = MemoryDisk()
        async with await open_log(disk, LATER) as log:
            topic = await log.create_topic("flights", partitions=1)
            await write(log, topic, batches, repeat)
            before = await read_all(log, topic.id)
            earliest = await log.trim(topic.partition(ZERO), Offset(trimmed))
            await log.compact(topic.partition(ZERO), Offset(10**6))
            after = await read_all(log, topic.id, start=earliest)
            old = [data for data in before if decode_batch(data).header.last_offset < earliest]
            assert fold(fold(State(), old), after).live() == fold(State(), before).live()

    in_turns(story)


@given(batches=batches_of, at=st.integers(0, 60), repeat=st.integers(0, 2**16), seed=st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_power_fails_in_the_middle_of_a_compaction(
    batches: list[tuple[list[Record], int, bool]], at: int, repeat: int, seed: int
) -> None:
    async def story() -> None:
        disk = MemoryDisk()
        survivors: list[MemoryDisk] = []
        chance = random.Random(seed)
        async with await open_log(disk, NOW) as log:
            topic = await log.create_topic("flights", partitions=1)
            await write(log, topic, batches, repeat)
            before = await read_all(log, topic.id)
            first = disk.steps + at

            def on_step(what: str, path: Path) -> None:
                if disk.steps >= first and not survivors:
                    survivors.append(disk.after_power_loss(chance))

            disk.on_step = on_step
            await log.compact(topic.partition(ZERO), Offset(10**6))
        async with await open_log(survivors[0] if survivors else disk, NOW) as log:
            assert log.recovery.damages == []
            after = await read_all(log, topic.id)
            check_same_meaning(before, after, 10**6, snapshots=False)
            if keys_of(after) != keys_of(before):
                lost = set(keys_of(before)) - set(keys_of(after))
                assert max(lost) < (await log.bounds(topic.partition(ZERO))).compacted, "it says what it has lost"
            await log.compact(topic.partition(ZERO), Offset(10**6))
            check_same_meaning(before, await read_all(log, topic.id), 10**6, snapshots=False)

    in_turns(story)


async def test_an_overwritten_key_shrinks_to_its_newest_record() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, NOW) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(200):
            await log.append(topic.partition(ZERO), plain_batch("same", value=b"%d" % number))
        sizes = sum(inode.length for path, inode in disk.files.items() if path.suffix == ".log")
        dropped = await log.compact(topic.partition(ZERO), Offset(10**6))
        assert dropped > 150
        assert sum(inode.length for path, inode in disk.files.items() if path.suffix == ".log") < sizes / 2
        assert (await log.bounds(topic.partition(ZERO))).earliest == 0, "offsets never change"
        assert await log.compact(topic.partition(ZERO), Offset(10**6)) == 0, "there is nothing left to drop"
        for start in range(0, 200, 9):
            assert min(keys_of(await read_all(log, topic.id, start=start))) >= start


async def test_a_compacted_log_says_which_states_are_gone() -> None:
    """A restore to a point below that offset had the wrong content, and nobody knew."""
    disk = MemoryDisk()
    async with await open_log(disk, NOW) as log:
        topic = await log.create_topic("flights", partitions=1)
        partition = topic.partition(ZERO)
        for number in range(200):
            await log.append(partition, plain_batch("same", value=b"%d" % number))
        assert (await log.bounds(partition)).compacted == 0
        await log.compact(partition, Offset(100))
        compacted = (await log.bounds(partition)).compacted
        assert 0 < compacted <= 100
        await log.compact(partition, Offset(50))
        assert (await log.bounds(partition)).compacted == compacted, "it never goes back"
        for number in range(200):
            await log.append(partition, plain_batch("other", value=b"%d" % number))
    for _ in range(2):  # from the files, and from what a clean close writes down
        async with await open_log(disk, NOW) as log:
            assert (await log.bounds(partition)).compacted == compacted
    (path,) = [path for path in disk.files if path.name == "checkpoint.json"]
    file = disk.open(path, write=True)
    file.pwrite((b"damaged",), 0)
    file.close()
    async with await open_log(disk, NOW) as log:
        bounds = await log.bounds(partition)
        assert bounds.compacted == bounds.latest + 1, "a checkpoint that cannot be read may have said so"


async def test_a_compaction_that_drops_nothing_keeps_every_state() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, NOW) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(200):
            await log.append(topic.partition(ZERO), plain_batch(f"key {number}"))
        assert await log.compact(topic.partition(ZERO), Offset(10**6)) == 0
        assert (await log.bounds(topic.partition(ZERO))).compacted == 0


async def test_a_producers_newest_batch_stays_as_a_shell() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, NOW) as log:
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(ZERO), plain_batch("a", "b", producer_id=7, sequence=40))
        for _ in range(60):
            await log.append(topic.partition(ZERO), plain_batch("a", "b"))
        await log.compact(topic.partition(ZERO), Offset(10**6))
        shell = decode_batch((await read_all(log, topic.id))[0]).header
        assert (shell.base_offset, shell.records, shell.span) == (0, 0, 2)
        assert (shell.producer_id, shell.sequence) == (7, 40)


async def test_barriers_stay_and_cover_nothing() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, NOW) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(40):
            await log.append(topic.partition(ZERO), plain_batch("a", "b"))
            if number % 10 == 0:
                barrier = barrier_batch(Barrier(1 + number // 10, number), producer_id=0, sequence=0)
                await log.append(topic.partition(ZERO), barrier)
        assert await log.compact(topic.partition(ZERO), Offset(10**6)) > 50
        left = [decode_batch(batch).columns for batch in await read_all(log, topic.id)]
        found = [parse_barrier(columns.values[0]) for columns in left if list(columns.keys) == [b""]]
        assert found == [Barrier(1, 0), Barrier(2, 10), Barrier(3, 20), Barrier(4, 30)]


@pytest.mark.parametrize("old_enough", [True, False])
async def test_deletes_stay_until_they_are_old_enough(old_enough: bool) -> None:
    disk = MemoryDisk()
    async with await open_log(disk, NOW if old_enough else LATER) as log:
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(ZERO), plain_batch("gone"))
        delete = encode_batch(Columns([b"gone"], [b""], [attribute_of(Operation.DELETE)]))
        await log.append(topic.partition(ZERO), delete)
        for _ in range(30):
            await log.append(topic.partition(ZERO), plain_batch("other"))
        await log.compact(topic.partition(ZERO), Offset(10**6))
        assert (b"gone" in keys_of(await read_all(log, topic.id)).values()) is not old_enough


async def test_readers_in_the_middle_are_not_disturbed() -> None:
    disk = MemoryDisk()
    options = EngineSettings(segment_bytes=1024, index_every_bytes=200, tail_bytes_max=0)
    async with await open_log(disk, options) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(200):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number % 7}"))
        chunks = log.read(topic.partition(ZERO), Offset(0), follow=False, chunk_bytes=300)
        seen = keys_of(list(split_batches((await anext(chunks)).data)))
        await log.compact(topic.partition(ZERO), Offset(10**6))
        async for chunk in chunks:
            seen.update(keys_of(list(split_batches(chunk.data))))
        assert seen.items() <= {n: b"k%d" % (n % 7) for n in range(200)}.items()
        assert max(seen) == 199
