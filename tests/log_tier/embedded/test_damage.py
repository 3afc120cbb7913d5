"""Every file of a log, damaged in every way, after a clean stop and after a kill.

What was acknowledged is served right, or it is refused, or reported as a cut: by name, with the offset. Nothing else is
ever served, and no acknowledged offset is given again unless a cut was reported.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from kit.log.engine_steps import HOME, open_log
from kit.log.in_turns import in_turns
from kit.log.sample_batches import keys_of, plain_batch
from kit.log.stopped_logs import KINDS, LIVES, OPTIONS, PARTITIONS, Stopped, changes_of, damaged_disk, kind_of

from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import DuramenError, LogDamaged
from log_tier.model.identifiers import Offset


async def check(stopped: Stopped, path: Path, what: str, data: bytes | None) -> None:
    disk = damaged_disk(stopped, path, data)
    await check_opened(stopped, path, what, lambda: open_log(disk, OPTIONS))


async def check_opened(stopped: Stopped, path: Path, what: str, open_it: Callable[[], Awaitable[EmbeddedLog]]) -> None:
    context = f"{kind_of(path)} {path.parent.name}/{path.name}: {what}"
    refusal: DuramenError | None = None
    try:
        log = await open_it()
    except DuramenError as error:
        refusal = error
    if refusal is not None:
        assert path.name in refusal.message or path.parent.name in refusal.message, f"{context}: {refusal.message}"
        return
    async with log:
        assert stopped.topic.id in [topic.id for topic in await log.topics()], f"{context}: the topic is gone"
        for number in range(PARTITIONS):
            await check_partition(log, stopped, number, context)


async def check_partition(log: EmbeddedLog, stopped: Stopped, number: int, context: str) -> None:
    kept = stopped.kept[number]
    damage: LogDamaged | None = None
    found: dict[int, bytes] = {}
    try:
        async for chunk in log.read(stopped.topic.partition(number), Offset(0), follow=False, chunk_bytes=1):
            found.update(keys_of([chunk.data]))
    except LogDamaged as error:
        damage = error
    assert found.items() <= kept.items(), f"{context}: served {found.items() - kept.items()}"
    reports = [str(cut) for cut in log.recovery.cuts] + [each.message for each in log.recovery.damages]
    if found != kept and damage is None:
        assert reports, f"{context}: shortened in silence, {sorted(kept.keys() - found.keys())} are gone"
    try:
        place = await log.append(stopped.topic.partition(number), plain_batch("next"))
    except LogDamaged:
        return
    if not log.recovery.cuts:
        assert place.base_offset not in kept, f"{context}: offset {place.base_offset} is given again"


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
def test_no_damage_shortens_a_log_in_silence(kind: str, clean: bool, alone: bool) -> None:
    stopped = LIVES[clean, alone]
    every = 41 if os.environ.get("DURAMEN_CAMPAIGN") else 1601
    failures: list[str] = []
    for path in sorted(stopped.files):
        if kind_of(path) == kind:
            for what, data in changes_of(stopped, path, every=every):
                if (clean, alone, what) == (False, True, "replaced by an older copy"):
                    # Nothing but this file ever held the last commits, and nothing was written since.
                    continue
                try:
                    in_turns(partial(check, stopped, path, what, data))
                except AssertionError as error:
                    failures.append(str(error).split("\n")[0])
    assert failures == []


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
async def test_the_same_on_real_files(clean: bool, tmp_path: Path) -> None:
    stopped = LIVES[clean, False]
    number = 0
    for path in sorted(stopped.files):
        data = stopped.files[path]
        used = data.rstrip(b"\0")
        middle = len(used) // 2
        flipped = used[:middle] + bytes([used[middle] ^ 8]) + data[middle + 1 :] if used else data
        for what, changed in (("bit", flipped), ("half", data[:middle]), ("empty", b""), ("whole", data)):
            number += 1
            home = tmp_path / str(number)
            for name, content in stopped.files.items():
                place = home / name.relative_to(HOME)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(changed if name == path else content)
            for partition in range(PARTITIONS):
                (home / "topics" / stopped.topic.id / str(partition)).mkdir(parents=True, exist_ok=True)
            await check_opened(stopped, path, what, partial(EmbeddedLog.open, home, settings=OPTIONS))
