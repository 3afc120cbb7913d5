"""A repair writes what its plan says: it moves the head of a trimmed partition, and reads every batch once more."""

from __future__ import annotations

import pytest
from kit.log.engine_steps import HOME, open_log, overwrite
from kit.log.repairs import contents_of, damages_of, repaired, zeroed
from kit.log.sample_batches import keys_of, read_all
from kit.log.stopped_logs import LIVES, OPTIONS, damaged_disk, kind_of

from log_tier.embedded.repair import LogRepair
from log_tier.embedded.storage import names
from log_tier.model.errors import LogDamaged
from log_tier.model.identifiers import Offset

STOPPED = LIVES[True, True]
FIRST, NEWEST = sorted(path for path in STOPPED.files if kind_of(path) == "segment" and path.parent.name == "0")


async def test_a_trimmed_partition_begins_behind_what_is_given_up_at_its_head() -> None:
    disk = damaged_disk(STOPPED)
    async with await open_log(disk, OPTIONS) as log:
        earliest = await log.trim(STOPPED.topic.partition(0), Offset(20))
    assert 0 < earliest == names.segment_base(NEWEST.name)
    disk = disk.after_process_end()
    bad = zeroed(bytes(disk.files[NEWEST].content), 0, 0.3)
    overwrite(disk, NEWEST, bad)
    (refusal,) = repaired(disk, None, only_if_all=True).refusals
    (lost,) = refusal.offsets
    assert lost.first == earliest
    plan = repaired(disk, None, {("flights", 0): [lost]})
    assert [step.kind for step in plan.steps if step.offsets] == ["trimmed"]
    old = {path: disk.files[path] for path in disk.files if names.is_repair_folder(path.relative_to(HOME).parts[0])}
    assert sorted(path.name for path in old) == [NEWEST.name, "checkpoint.json"], "what an open removes is kept"
    assert bytes(next(inode.content for path, inode in old.items() if path.name == NEWEST.name)) == bad
    assert damages_of(disk) == []
    kept = {offset: key for offset, key in STOPPED.kept[0].items() if offset > lost.last}
    assert kept
    async with await open_log(disk, OPTIONS) as log:
        assert (await log.bounds(STOPPED.topic.partition(0))).earliest == lost.end
        assert keys_of(await read_all(log, STOPPED.topic.id, start=lost.end)).items() >= kept.items()


async def test_a_file_that_changed_since_the_plan_was_made_is_not_written_over() -> None:
    whole = STOPPED.files[FIRST]
    disk, copy = damaged_disk(STOPPED, FIRST, zeroed(whole, 0.4, 0.6)), damaged_disk(STOPPED)
    with LogRepair(HOME, copy=HOME, disk=disk, copy_disk=copy, settings=OPTIONS) as repair:
        assert not repair.plan().refusals
        for place in (60, len(whole.rstrip(b"\0")) - 9):  # in what the plan keeps, before the hole and behind it
            disk.files[FIRST].content[place] ^= 1
            changed = bytes(disk.files[FIRST].content)
            with pytest.raises(LogDamaged, match=f"{FIRST} is damaged at byte"):
                repair.carry_out()
            assert bytes(disk.files[FIRST].content) == changed
            disk.files[FIRST].content[place] ^= 1
    assert damages_of(disk), "a part of a repair that failed counts as a repair"
    repaired(disk, copy)
    assert damages_of(disk) == []
    assert await contents_of(disk, STOPPED) == STOPPED.kept
