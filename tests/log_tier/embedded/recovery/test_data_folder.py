"""Whose a folder is: one process's, one format's, and nobody else's."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from kit.log.engine_steps import ZERO
from kit.log.sample_batches import plain_batch, read_all

from duramen.testing.machine.kernel_disk import KernelDisk
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import FolderInUse, ForeignFolder, LogDamaged, UnknownFormat


async def test_a_second_open_names_the_owner(tmp_path: Path) -> None:
    async with await EmbeddedLog.open(tmp_path / "log"):
        with pytest.raises(FolderInUse, match=str(os.getpid())) as caught:
            await EmbeddedLog.open(tmp_path / "log")
        assert caught.value.fields["pid"] == os.getpid()
    async with await EmbeddedLog.open(tmp_path / "log"):
        pass


async def test_another_process_is_refused_too_and_its_end_frees_the_folder(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from log_tier.embedded import EmbeddedLog\n"
        "async def main():\n"
        "    async with await EmbeddedLog.open(sys.argv[1]):\n"
        "        print('open', flush=True)\n"
        "        await asyncio.to_thread(sys.stdin.read)\n"
        "asyncio.run(main())\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "log")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(FolderInUse, match=f"process {other.pid}"):
            await EmbeddedLog.open(tmp_path / "log")
        other.kill()
    async with await EmbeddedLog.open(tmp_path / "log") as log:
        assert await log.topics() == []


async def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"x")
    with pytest.raises(ForeignFolder, match=r"photo\.jpg"):
        await EmbeddedLog.open(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photo.jpg"]


async def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ForeignFolder):
            await EmbeddedLog.open(path)


@pytest.mark.parametrize(
    ("marker", "kind"),
    [
        ({"format": "duramen-log", "version": 2}, UnknownFormat),
        ({"format": "something else", "version": 1}, ForeignFolder),
        ({"format": "duramen-log", "version": 1, "id": "x", "check": "00000000"}, LogDamaged),
        ([], ForeignFolder),
        (None, LogDamaged),
    ],
)
async def test_markers_that_are_not_ours(tmp_path: Path, marker: object, kind: type[Exception]) -> None:
    (tmp_path / "duramen.json").write_text("no json" if marker is None else json.dumps(marker))
    with pytest.raises(kind, match=r"duramen\.json"):
        await EmbeddedLog.open(tmp_path)
    with pytest.raises(kind):
        await EmbeddedLog.open(tmp_path)


async def test_a_stranger_among_the_topics_is_named(tmp_path: Path) -> None:
    async with await EmbeddedLog.open(tmp_path):
        pass
    (tmp_path / "topics" / "backup").mkdir()
    with pytest.raises(ForeignFolder, match="backup"):
        await EmbeddedLog.open(tmp_path)


async def test_a_damaged_checkpoint_costs_a_note_and_nothing_else(tmp_path: Path) -> None:
    async with await EmbeddedLog.open(tmp_path) as log:
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(ZERO), plain_batch("a"))
    (checkpoint,) = tmp_path.glob("topics/*/0/checkpoint.json")
    checkpoint.write_bytes(b"garbage")
    async with await EmbeddedLog.open(tmp_path) as log:
        assert "without a checkpoint" in str(log.recovery)
        assert len(await read_all(log, topic.id)) == 1
        assert (await log.append(topic.partition(ZERO), plain_batch("b"))).base_offset == 1


async def test_a_deleted_topic_leaves_no_files(tmp_path: Path) -> None:
    async with await EmbeddedLog.open(tmp_path) as log:
        topic = await log.create_topic("flights", partitions=3)
        await log.append(topic.partition(ZERO), plain_batch("a"))
        await log.delete_topic(topic.id)
        assert list((tmp_path / "topics").iterdir()) == []


async def test_the_parents_that_a_log_makes_survive_a_power_loss() -> None:
    for seed in range(8):
        disk, home = KernelDisk(random.Random(seed)), Path("/some/new/place/log")
        log = await EmbeddedLog.open(home, disk=disk)
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(0), plain_batch("a", "b"))
        after = disk.after_power_loss(random.Random(seed))
        await log.close()
        async with await EmbeddedLog.open(home, disk=after) as again:
            assert [each.name for each in await again.topics()] == ["flights"], f"power loss {seed}"
