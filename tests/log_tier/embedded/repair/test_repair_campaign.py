"""Every file of a log, damaged in every way, repaired from a copy: whole again, byte for byte."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from kit.log.in_turns import in_turns
from kit.log.repairs import contents_of, damages_of, repaired
from kit.log.stopped_logs import KINDS, LIVES, Stopped, changes_of, damaged_disk, kind_of


async def heals(stopped: Stopped, path: Path, data: bytes | None) -> str:
    """What is wrong after the repair; empty if nothing is."""
    disk = damaged_disk(stopped, path, data)
    if not damages_of(disk) and kind_of(path) != "sparse index":
        return ""
    plan = repaired(disk, damaged_disk(stopped))
    if plan.refusals:
        return f"refused: {plan.refusals}"
    left = damages_of(disk)
    if left:
        return f"damaged: {[each.message for each in left]}"
    found = await contents_of(disk, stopped)
    return "" if found == stopped.kept else f"holds {found}"


@pytest.mark.campaign
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lock"])
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
def test_what_is_damaged_heals_from_a_copy(kind: str, clean: bool, alone: bool) -> None:
    stopped = LIVES[clean, alone]
    every = 41 if os.environ.get("DURAMEN_CAMPAIGN") else 1601
    failures: list[str] = []
    for path in sorted(stopped.files):
        if kind_of(path) != kind:
            continue
        for what, data in changes_of(stopped, path, every=every):
            if data == stopped.files[path]:
                continue
            trouble = in_turns(partial(heals, stopped, path, data))
            if trouble:
                failures.append(f"{path.parent.name}/{path.name}: {what}: {trouble}")
    assert failures == []
