"""After a clean close of many partitions: what stays at rest, what is looked at, and that a crash never believes it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kit.log.engine_steps import HOME, SMALL, copy_of, open_log, segment_files
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog
from log_tier.embedded.recovery.log_summary import LogSummary, PartitionSummary, TopicSummary
from log_tier.embedded.storage.disk import FileIdentity
from log_tier.model.errors import DuramenError, FolderInUse
from log_tier.model.identifiers import TableId
from log_tier.model.log import Topic

RESTS = replace(SMALL, summary_partitions_min=1)
SUMMARY = HOME / "summary.json"
PARTITIONS = 3
RECORDS = 4


async def closed_log(partitions: int = PARTITIONS) -> tuple[MemoryDisk, Topic]:
    """A log that was closed cleanly; the last partition is empty."""
    disk = MemoryDisk()
    async with await open_log(disk, RESTS) as log:
        topic = await log.create_topic("flights", partitions=partitions)
        for number in range(RECORDS):
            parts = [(topic.partition(p), plain_batch(f"{p}.{number}")) for p in range(partitions - 1)]
            for place in await log.append_many(parts):
                assert not isinstance(place, DuramenError)
    return disk, topic


def resting(log: EmbeddedLog, topic: Topic) -> list[bool]:
    return [each.is_at_rest for each in log._topics[topic.id].partitions]


async def check_whole(log: EmbeddedLog, topic: Topic, more: int = 0) -> None:
    for number in range(topic.partitions):
        count = 0 if number == topic.partitions - 1 else RECORDS
        found = keys_of(await read_all(log, topic.id, number))
        assert dict(list(found.items())[:count]) == {n: f"{number}.{n}".encode() for n in range(count)}
        assert (await log.append(topic.partition(number), plain_batch("next"))).base_offset == count + more


async def test_after_a_clean_close_no_partition_is_looked_at_before_it_is_used() -> None:
    disk, topic = await closed_log()
    looks: list[Path] = []
    disk.on_look = lambda what, path: looks.append(path) if what != "identity" else None
    async with await open_log(disk, RESTS) as log:
        assert resting(log, topic) == [True] * PARTITIONS
        assert not [path for path in looks if topic.id in str(path)]
        assert str(log.recovery) == "nothing to recover"
        assert [each.latest for each in await log.all_bounds(topic.id)] == [RECORDS - 1, RECORDS - 1, -1]
        assert resting(log, topic) == [True] * PARTITIONS
        await log.append(topic.partition(0), plain_batch("next"))
        assert resting(log, topic) == [False, True, True]
        assert keys_of(await read_all(log, topic.id, 1)) == {n: b"1.%d" % n for n in range(RECORDS)}
        assert resting(log, topic) == [False, False, True]
    async with await open_log(disk, RESTS) as log:
        assert resting(log, topic) == [True] * PARTITIONS
        await log.append(topic.partition(0), plain_batch("again"))
        assert (await log.bounds(topic.partition(0))).latest == RECORDS + 1


async def test_few_partitions_leave_no_summary() -> None:
    disk, topic = await closed_log()
    async with await open_log(disk, replace(RESTS, summary_partitions_min=PARTITIONS + 1)) as log:
        assert SUMMARY not in disk.files
        await check_whole(log, topic)
    assert SUMMARY not in disk.files


async def test_a_killed_log_leaves_no_summary() -> None:
    disk, topic = await closed_log()
    async with await open_log(disk, RESTS) as log:
        await log.append(topic.partition(0), plain_batch("more"))
        killed = disk.after_process_end()
        assert SUMMARY not in killed.files
    async with await open_log(killed, RESTS) as log:
        assert resting(log, topic) == [False] * PARTITIONS
        assert (await log.bounds(topic.partition(0))).latest == RECORDS


def pulled(disk: MemoryDisk, at: int, chance: random.Random, left: list[MemoryDisk]) -> Callable[[str, Path], None]:
    """Power fails after so many steps: what the next process finds goes to `left`."""

    def plug(what: str, path: Path) -> None:
        if disk.steps > at and not left:
            left.append(disk.after_power_loss(chance))

    return plug


async def test_power_fails_at_every_step_between_two_clean_closes() -> None:
    """Open with a summary, append, close: whatever the power leaves, what was acknowledged is there, in its place."""
    first, topic = await closed_log()

    async def life(disk: MemoryDisk) -> list[int]:
        """The offsets that were acknowledged, by partition."""
        ends = [RECORDS, RECORDS, 0]
        async with await open_log(disk, RESTS) as log:
            for parts in ((0,), (0, 1), (1, 2), (2,)):
                batches = [(topic.partition(p), plain_batch(f"more{p}")) for p in parts]
                for place in await log.append_many(batches, gathered=True):
                    assert not isinstance(place, DuramenError)
                for p in parts:
                    ends[p] += 1
                history.append((disk.steps, list(ends)))
        return ends

    history: list[tuple[int, list[int]]] = []
    steps = copy_of(first)
    await life(steps)
    total = steps.steps
    rested = 0
    for at in range(total + 1):
        for seed in range(3):
            disk = copy_of(first)
            history.clear()
            survivors: list[MemoryDisk] = []
            disk.on_step = pulled(disk, at, random.Random(seed), survivors)
            ends = await life(disk)
            known = [acknowledged for step, acknowledged in history if step <= at]
            promised = known[-1] if known else [RECORDS, RECORDS, 0]
            survivor = survivors[0] if survivors else disk.after_power_loss(random.Random(seed))
            async with await open_log(survivor, RESTS) as log:
                assert log.recovery.damages == [], (at, seed, log.recovery.damages)
                rested += any(resting(log, topic))
                for p in range(PARTITIONS):
                    found = keys_of(await read_all(log, topic.id, p))
                    assert promised[p] <= len(found) <= ends[p], (at, seed, p, promised, found)
                    assert list(found) == list(range(len(found)))
                    place = await log.append(topic.partition(p), plain_batch("after"))
                    assert place.base_offset == len(found)
    assert rested, "the summary of the first close, and of the second, is used where nothing was done since"


@pytest.mark.parametrize("generation", ["old", "forged"])
async def test_an_older_summary_is_not_believed(generation: str) -> None:
    disk, topic = await closed_log()
    old = bytes(disk.files[SUMMARY].content)
    async with await open_log(disk, RESTS) as log:
        await log.append(topic.partition(0), plain_batch("more"))
    now = disk.files[SUMMARY].content
    if generation == "forged":
        # As if the journal had not gone on: the files themselves say that they were written since.
        current = LogSummary.take(copy_of(disk), HOME, log._folder.identity).generation
        assert json.loads(old)["generation"] < json.loads(now)["generation"] == current
        disk.files[SUMMARY].content[:] = old
        LogSummary.take(disk, HOME, log._folder.identity)._replace(generation=current).write(
            disk, HOME, log._folder.identity
        )
    else:
        disk.files[SUMMARY].content[:] = old
    disk.files[SUMMARY].length = len(disk.files[SUMMARY].content)
    async with await open_log(disk, RESTS) as log:
        assert resting(log, topic) == ([False, True, True] if generation == "forged" else [False] * PARTITIONS)
        assert (await log.bounds(topic.partition(0))).latest == RECORDS
        assert keys_of(await read_all(log, topic.id, 0))[RECORDS] == b"more"


async def test_every_flipped_byte_and_every_length_of_a_summary() -> None:
    disk, topic = await closed_log()
    whole = bytes(disk.files[SUMMARY].content)
    for at in range(0, len(whole), 7):
        for content in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            torn = copy_of(disk)
            torn.files[SUMMARY].content[:] = content
            torn.files[SUMMARY].length = len(content)
            async with await open_log(torn, RESTS) as log:
                assert resting(log, topic) == [False] * PARTITIONS, content
                assert (await log.bounds(topic.partition(0))).latest == RECORDS - 1
    async with await open_log(torn, RESTS) as log:
        await check_whole(log, topic)


async def test_a_summary_of_another_folder_is_not_used() -> None:
    disk, topic = await closed_log()
    other, _ = await closed_log()
    other.files[SUMMARY].content[:] = disk.files[SUMMARY].content.replace(b'"log": "', b'"log": "x')
    other.files[SUMMARY].length = len(other.files[SUMMARY].content)
    disk.files[SUMMARY] = other.files[SUMMARY]
    async with await open_log(disk, RESTS) as log:
        assert resting(log, topic) == [False] * PARTITIONS
        await check_whole(log, topic)


async def test_a_copy_of_a_folder_is_looked_at() -> None:
    disk, topic = await closed_log()
    for inode in disk.files.values():
        inode.number = disk.tick()
    async with await open_log(disk, RESTS) as log:
        assert resting(log, topic) == [False] * PARTITIONS
        await check_whole(log, topic)


async def test_a_copy_of_a_folder_is_looked_at_once() -> None:
    disk, topic = await closed_log()
    for inode in disk.files.values():
        inode.number = disk.tick()
    async with await open_log(disk, RESTS) as log:
        assert resting(log, topic) == [False] * PARTITIONS
    async with await open_log(disk, RESTS) as log:
        assert resting(log, topic) == [True] * PARTITIONS


async def test_the_folder_of_another_process_keeps_its_summary() -> None:
    disk, topic = await closed_log()
    disk.locks.add(HOME / "lock")
    with pytest.raises(FolderInUse):
        await open_log(disk, RESTS)
    disk.locks.clear()
    async with await open_log(disk, RESTS) as log:
        assert resting(log, topic) == [True] * PARTITIONS


async def test_what_was_changed_while_a_partition_was_at_rest_is_seen_by_the_next_open() -> None:
    disk, topic = await closed_log()
    (segment,) = segment_files(disk, topic, 0)
    async with await open_log(disk, RESTS) as log:
        disk.files[segment].number = disk.tick()
        assert resting(log, topic) == [True] * PARTITIONS
    async with await open_log(disk, RESTS) as log:
        assert resting(log, topic) == [False, True, True]


async def test_topics_come_and_go_among_partitions_at_rest() -> None:
    disk, topic = await closed_log()
    async with await open_log(disk, RESTS) as log:
        assert await log.trim(topic.partition(0), (await log.bounds(topic.partition(0))).latest) == 0
        assert resting(log, topic) == [True] * PARTITIONS, "one segment has nothing to trim"
        other = await log.create_topic("other", partitions=1)
        await log.append(other.partition(0), plain_batch("k"))
        await log.delete_topic(topic.id)
    async with await open_log(disk, RESTS) as log:
        assert [each.name for each in await log.topics()] == ["other"]
        assert resting(log, other) == [True]
        assert keys_of(await read_all(log, other.id)) == {0: b"k"}


async def test_a_partition_of_many_segments_is_looked_at() -> None:
    disk, topic = await closed_log(2)
    async with await open_log(disk, RESTS) as log:
        for number in range(120):
            await log.append(topic.partition(0), plain_batch(f"k{number}"))
    assert len(segment_files(disk, topic)) > 4
    async with await open_log(disk, RESTS) as log:
        assert resting(log, topic) == [False, True]


async def test_partitions_at_rest_are_trimmed_and_compacted() -> None:
    disk, topic = await closed_log(2)
    async with await open_log(disk, RESTS) as log:
        for number in range(30):
            await log.append(topic.partition(0), plain_batch("same", value=b"%d" % number))
    assert 1 < len(segment_files(disk, topic)) <= 4
    for verb in ("trim", "compact"):
        changed = copy_of(disk)
        async with await open_log(changed, replace(RESTS, tombstone_ms=1)) as log:
            assert resting(log, topic)[0]
            latest = (await log.bounds(topic.partition(0))).latest
            done = await getattr(log, verb)(topic.partition(0), latest)
            assert done > 0
            kept = keys_of(await read_all(log, topic.id, 0, start=int((await log.bounds(topic.partition(0))).earliest)))
            assert max(kept) == latest
        async with await open_log(changed, RESTS) as log:
            assert resting(log, topic)[0]
            again = keys_of(
                await read_all(log, topic.id, 0, start=int((await log.bounds(topic.partition(0))).earliest))
            )
            assert again == kept


async def test_a_commit_of_a_partition_at_rest_is_not_made_in_the_caller_s_thread() -> None:
    disk, topic = await closed_log()
    async with await open_log(disk, replace(RESTS, quick_commit_s=10.0)) as log:
        committer = log._committer

        async def write(partition: int) -> None:
            await log.append_many([(topic.partition(partition), plain_batch("k"))], gathered=True)

        async def write_until_made_here(partition: int) -> None:
            before = committer.commits_at_once
            while committer.commits_at_once == before:  # the disk must have shown that it is quick
                await write(partition)

        await write_until_made_here(1)
        before = committer.commits_at_once
        await write(0)
        assert committer.commits_at_once == before
        await write_until_made_here(0)


async def test_two_uses_at_once_look_once() -> None:
    disk, topic = await closed_log()
    async with await open_log(disk, RESTS) as log:
        partition = log._topics[topic.id].partitions[0]
        lists: list[Path] = []
        disk.on_look = lambda what, path: lists.append(path) if what == "list" else None
        batches = [log.append(topic.partition(0), plain_batch(f"k{n}")) for n in range(5)]
        await asyncio.gather(*batches, *(read_all(log, topic.id, 0) for _ in range(5)))
        assert lists == [partition.folder]


def test_version_1_stays_readable() -> None:
    """The example of docs/FORMATS.md."""
    page = (Path(__file__).parents[4] / "docs" / "FORMATS.md").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.startswith('{"format": "duramen-log-summary"'))
    disk, log_id, topic = MemoryDisk(), TableId("bG9nLWxvZy1sb2ctbG9nLQ"), TableId("AAECAwQFBgcICQoLDA0ODw")
    expected = LogSummary(
        6,
        {
            topic: TopicSummary(
                Topic(topic, "flights", 2),
                FileIdentity(11, 122, 5, 5),
                (
                    PartitionSummary(
                        ((0, 3, 225, 1_700_000_000_000),),
                        (FileIdentity(12, 4096, 7, 7), FileIdentity(13, 193, 8, 8), FileIdentity(14, 225, 9, 9)),
                    ),
                    None,
                ),
            )
        },
    )
    disk.make_folder(HOME)
    expected.write(disk, HOME, log_id)
    assert disk.files[SUMMARY].content.decode() == line + "\n"
    assert LogSummary.take(disk, HOME, log_id) == expected
    assert LogSummary.take(disk, HOME, log_id) == LogSummary()
