"""A copy that is older than the damage: refused with the offsets by number, and repaired once they are given up."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from kit.log.engine_steps import HOME, open_log
from kit.log.repairs import contents_of, damages_of, repaired, zeroed
from kit.log.sample_batches import plain_batch
from kit.log.stopped_logs import LIVES, OPTIONS, PARTITIONS, Stopped, damaged_disk, kind_of

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded.repair import GiveUp, RepairPlan
from log_tier.embedded.verification import verify_log
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Offset, OffsetRange


def older_copy(stopped: Stopped) -> MemoryDisk:
    """The log as it was when it was half written."""
    return damaged_disk(stopped._replace(files=stopped.older))


def asked_of(plan: RepairPlan) -> GiveUp:
    """What the refusals ask to be given up."""
    found: dict[tuple[str, int], list[OffsetRange]] = {}
    for refusal in plan.refusals:
        table, number = refusal.partition.split("/")
        found.setdefault((table, int(number)), []).extend(refusal.offsets)
    return found


def offsets(ranges: Iterable[OffsetRange]) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


SEGMENTS = [(clean, alone, number) for clean in (True, False) for alone in (True, False) for number in range(4)]


@pytest.mark.parametrize(("clean", "alone", "number"), SEGMENTS)
@pytest.mark.parametrize("part", [(0, 0.1), (0.4, 0.6), (0.7, 1), (0, 1)], ids=str)
@pytest.mark.parametrize("has_copy", [True, False], ids=["older copy", "no copy"])
async def test_what_the_copy_lacks_is_given_up_by_number(
    clean: bool, alone: bool, number: int, part: tuple[float, float], has_copy: bool
) -> None:
    stopped = LIVES[clean, alone]
    path = sorted(each for each in stopped.files if kind_of(each) == "segment")[number]
    partition = int(path.parent.name)
    disk = damaged_disk(stopped, path, zeroed(stopped.files[path], *part))
    if not damages_of(disk):
        return
    copy = older_copy(stopped) if has_copy else None
    plan = repaired(disk, copy, only_if_all=True)
    give_up = asked_of(plan)
    lost = offsets(give_up.get(("flights", partition), ()))
    if plan.refusals:
        assert set(give_up) == {("flights", partition)}
        assert lost <= set(stopped.kept[partition])
        assert all("cannot be read" in each.why for each in plan.refusals)
        assert damages_of(disk), "a repair that was refused has repaired"
        few = {("flights", partition): give_up["flights", partition][:-1]}
        assert repaired(disk, copy, few, only_if_all=True).refusals, "one range less was enough"
        plan = repaired(disk, copy, give_up)
    else:
        assert has_copy, "healed of nothing"
    assert not plan.refusals
    assert plan.given_up == bool(lost)
    assert damages_of(disk) == []
    found = await contents_of(disk, stopped)
    kept = {each: dict(stopped.kept[each]) for each in range(PARTITIONS)}
    gone = {offset for offset in kept[partition] if offset not in found[partition]} - lost
    assert {offset: key for offset, key in kept[partition].items() if offset not in lost | gone}.items() <= found[
        partition
    ].items()
    # What nothing showed: the last commits in a damaged newest file, that no journal, index or copy has.
    assert not gone or min(gone) > max(found[partition].keys() - gone, default=-1)
    assert not gone or path == max(
        each for each in stopped.files if each.parent == path.parent and each.suffix == ".log"
    )
    assert found[1 - partition] == kept[1 - partition]
    await goes_on(disk, stopped, partition, above=max([*lost, *found[partition]], default=-1))
    said = [each.message for each in verify_log(HOME, disk=disk, settings=OPTIONS)]
    assert any("a repair gave up" in each for each in said) == bool(lost)


async def goes_on(disk: MemoryDisk, stopped: Stopped, partition: int, *, above: int) -> None:
    """The partition takes writes, at offsets that were never used."""
    async with await open_log(disk.after_process_end(), OPTIONS) as log:
        place = await log.append(stopped.topic.partition(partition), plain_batch("next"))
        assert place.base_offset > above


async def test_offsets_behind_the_end_are_given_up_where_something_else_knows_them() -> None:
    stopped = LIVES[True, True]
    end = len(stopped.kept[0])
    disk = damaged_disk(stopped)
    repaired(disk, None, {("flights", 0): [OffsetRange(Offset(end), Offset(end + 4))]})
    assert damages_of(disk) == []
    assert await contents_of(disk, stopped) == stopped.kept
    await goes_on(disk, stopped, 0, above=end + 4)


async def test_the_bounds_say_which_indexes_may_hold_what_was_given_up() -> None:
    stopped = LIVES[True, True]
    path = min(each for each in stopped.files if kind_of(each) == "segment" and each.parent.name == "0")
    disk = damaged_disk(stopped, path, zeroed(stopped.files[path], 0.4, 0.6))
    give_up = asked_of(repaired(disk, None, only_if_all=True))
    repaired(disk, None, give_up)
    first, end = give_up["flights", 0][0].first, len(stopped.kept[0])
    async with await open_log(disk, OPTIONS) as log:
        bounds = await log.bounds(stopped.topic.partition(0))
        other = await log.bounds(stopped.topic.partition(1))
    assert (bounds.given_up, bounds.mended, bounds.latest, bounds.lost) == (first, end, end, 0)
    assert [each for each in range(end + 1) if bounds.may_hold_given_up(Offset(each))] == list(range(first, end))
    assert not any(other.may_hold_given_up(Offset(each)) for each in range(end))


def test_what_does_not_exist_cannot_be_given_up() -> None:
    with pytest.raises(InvalidRequest, match="flights/7 is no partition"):
        repaired(damaged_disk(LIVES[True, True]), None, {("flights", 7): [OffsetRange(Offset(0), Offset(1))]})


async def test_a_number_that_was_mistyped_uses_up_no_offsets() -> None:
    disk = damaged_disk(LIVES[True, True])
    plan = repaired(disk, None, {("flights", 0): [OffsetRange(Offset(3), Offset(1 << 40))]})
    assert "too many to be meant" in plan.refusals[0].why
    assert not any("repair-" in str(path) for path in disk.files)


def test_more_may_be_named_than_is_missing() -> None:
    """What is there stays there."""
    disk = damaged_disk(LIVES[True, True])
    assert not repaired(disk, None, {("flights", 0): [OffsetRange(Offset(3), Offset(8))]}).steps


def path_of(stopped: Stopped, partition: int, number: int) -> Path:
    return sorted(each for each in stopped.files if kind_of(each) == "segment" and each.parent.name == str(partition))[
        number
    ]
