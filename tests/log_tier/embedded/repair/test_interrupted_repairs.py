"""A repair that power or a kill ends at any change of the disk: old, repaired, or finished by the next repair."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

import pytest
from kit.log.in_turns import in_turns
from kit.log.repairs import contents_of, damages_of, repaired, zeroed
from kit.log.stopped_logs import LIVES, Stopped, damaged_disk, kind_of

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded.repair import GiveUp
from log_tier.model.identifiers import Offset, OffsetRange

EVERY = 1 if os.environ.get("DURAMEN_CAMPAIGN") else 9
"""Each change of the disk, or some of them."""


class Stop(Exception):
    """The machine stops here."""


def stopped_at(disk: MemoryDisk, copy: MemoryDisk | None, give_up: GiveUp, step: int) -> bool:
    """Repair until the step of that number; whether it was reached."""
    left = iter(range(step))

    def on_step(what: str, path: Path) -> None:
        if next(left, None) is None:
            raise Stop

    disk.on_step = on_step
    try:
        repaired(disk, copy, give_up)
    except Stop:
        return True
    finally:
        disk.on_step = lambda what, path: None
        disk.locks.clear()
    return False


def files_of(stopped: Stopped, kind: str) -> list[Path]:
    return sorted(each for each in stopped.files if kind_of(each) == kind)


NO_GIVE_UP: GiveUp = {}
MIDDLE: GiveUp = {("flights", 0): [OffsetRange(Offset(0), Offset(35))]}


def damages(stopped: Stopped) -> dict[str, MemoryDisk]:
    segments = files_of(stopped, "segment")
    topic = files_of(stopped, "topic.json")[0]
    journal = files_of(stopped, "journal.0")[0]
    found = {
        "a sealed segment": damaged_disk(stopped, segments[0], zeroed(stopped.files[segments[0]], 0.4, 0.6)),
        "the newest segment": damaged_disk(stopped, segments[1], zeroed(stopped.files[segments[1]], 0.2, 0.4)),
        "a lost end": damaged_disk(stopped, segments[1], stopped.files[segments[1]][:300]),
        "a missing segment": damaged_disk(stopped, segments[0], None),
        "a topic": damaged_disk(stopped, topic, b"{"),
        "the journal": damaged_disk(stopped, journal, b"?" * 5000 + stopped.files[journal][5000:]),
        "a checkpoint": damaged_disk(stopped, files_of(stopped, "checkpoint.json")[0], b""),
    }
    both = damaged_disk(stopped, segments[0], zeroed(stopped.files[segments[0]], 0.4, 0.6))
    both.files[journal].content[:5000] = b"?" * 5000
    both.files[topic].content[:4] = b"????"
    both.files[topic].sync()
    both.files[journal].sync()
    return {**found, "three files": both}


@pytest.mark.campaign
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("what", list(damages(LIVES[True, True])))
@pytest.mark.parametrize("ending", ["kill", "power"])
def test_a_repair_that_is_interrupted_is_finished_by_the_next_one(what: str, clean: bool, ending: str) -> None:
    stopped = LIVES[clean, True]
    copy = damaged_disk(stopped)
    for step in range(0, 1 << 20, EVERY):
        disk = damages(stopped)[what]
        reached = stopped_at(disk, copy, NO_GIVE_UP, step)
        left = disk.after_process_end() if ending == "kill" else disk.after_power_loss(random.Random(step))
        if not reached:
            left = disk.after_power_loss(random.Random(step))
            assert damages_of(left) == []
        else:
            assert not repaired(left, copy).refusals, f"{what}, stopped at step {step}"
        assert damages_of(left) == [], f"{what}, stopped at step {step}"
        assert in_turns(partial(contents_of, left, stopped)) == stopped.kept, f"{what}, stopped at step {step}"
        if not reached:
            break
    assert step > 5, "the repair made hardly a change"


@pytest.mark.campaign
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("what", ["a sealed segment", "the newest segment", "a missing segment"])
@pytest.mark.parametrize("ending", ["kill", "power"])
def test_what_is_given_up_is_given_up_as_a_whole(what: str, clean: bool, ending: str) -> None:
    """The next repair gives up the same; or it has a copy that has everything, and gives up nothing."""
    stopped = LIVES[clean, True]
    whole = damaged_disk(stopped)
    for step in range(0, 1 << 20, EVERY):
        disk = damages(stopped)[what]
        reached = stopped_at(disk, None, MIDDLE, step)
        left = disk.after_process_end() if ending == "kill" else disk.after_power_loss(random.Random(step))
        again = left.after_process_end()
        assert not repaired(left, None, MIDDLE).refusals
        assert damages_of(left) == [], f"{what}, stopped at step {step}"
        found = in_turns(partial(contents_of, left, stopped))
        assert found[1] == stopped.kept[1]
        assert found[0].items() < stopped.kept[0].items()
        if reached and damages_of(again):
            repaired(again, whole)
            if not damages_of(again):
                healed = in_turns(partial(contents_of, again, stopped))
                assert healed[0].items() >= found[0].items(), f"{what}, stopped at step {step}"
        if not reached:
            break
    assert step > 5, "the repair made hardly a change"


async def test_the_old_files_are_kept() -> None:
    stopped = LIVES[True, True]
    path = files_of(stopped, "segment")[0]
    bad = zeroed(stopped.files[path], 0.4, 0.6)
    disk = damaged_disk(stopped, path, bad)
    repaired(disk, damaged_disk(stopped))
    kept = [each for each in disk.files if "repair-1" in each.parts]
    assert sorted(each.name for each in kept) == [path.name, "checkpoint.json"]
    (old,) = (each for each in kept if each.name == path.name)
    assert bytes(disk.files[old].content).ljust(len(bad), b"\0") == bad
    assert bytes(disk.files[path].content) == stopped.files[path]


async def test_only_the_damaged_segment_is_written() -> None:
    stopped = LIVES[True, True]
    path = files_of(stopped, "segment")[0]
    disk = damaged_disk(stopped, path, zeroed(stopped.files[path], 0.4, 0.6))
    written: set[str] = set()
    disk.on_step = lambda what, where: written.add(where.name) if what == "write" else None
    repaired(disk, damaged_disk(stopped))
    assert written == {path.name + ".part", path.with_suffix(".index").name + ".part", "checkpoint.json.part"}
