"""How far a partition was, where its checkpoint is lost and its newest file damaged: its sparse index may know."""

from __future__ import annotations

from kit.log.engine_steps import change_content, open_log, segment_files
from kit.log.repairs import damages_of, repaired
from kit.log.sample_batches import keys_of, plain_batch, read_all
from kit.log.stopped_logs import OPTIONS

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded.segments.segment import Segment
from log_tier.embedded.storage import names
from log_tier.model.identifiers import Offset, OffsetRange
from log_tier.model.log import Topic

RECORDS = 8


async def closed_after_each() -> tuple[list[MemoryDisk], Topic]:
    """A log of one partition and one file, as it was closed after 0 to `RECORDS` offsets."""
    disk, found = MemoryDisk(), list[MemoryDisk]()
    async with await open_log(disk, OPTIONS) as log:
        topic = await log.create_topic("flights", partitions=1)
    for number in range(RECORDS):
        found.append(disk.after_process_end())
        async with await open_log(disk, OPTIONS) as log:
            await log.append(topic.partition(0), plain_batch(f"key{number}"))
    return [*found, disk.after_process_end()], topic


async def test_a_copy_that_ends_where_the_damage_begins_is_not_the_whole() -> None:
    """The index has the offset of one batch more than that. It is lost, and a repair says so."""
    disks, topic = await closed_after_each()
    disk = disks[RECORDS]
    (newest,) = segment_files(disk, topic)
    offset, position = Segment(newest.parent, Offset(0), Offset(0), 0, 0).load_index(disk).entry(-1)
    assert 0 < offset < RECORDS - 1, "the index knows less than the end, and has more than nothing in front of it"
    change_content(disk, newest, bytes(disk.files[newest].content)[:position])
    del disk.files[newest.parent / names.CHECKPOINT]

    (refusal,) = repaired(disk, disks[offset], only_if_all=True).refusals
    assert (refusal.partition, refusal.offsets) == ("flights/0", (OffsetRange(Offset(offset), Offset(offset)),))
    assert damages_of(disk)

    assert not repaired(disk, disks[offset + 1]).refusals
    assert damages_of(disk) == []
    async with await open_log(disk, OPTIONS) as log:
        found = keys_of(await read_all(log, topic.id))
    assert {at: key for at, key in found.items() if key} == {at: b"key%d" % at for at in range(offset + 1)}
