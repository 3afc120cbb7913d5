"""A batch, checkpoint or description of another partition or table is damage; older batch versions are read."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import google_crc32c
import pytest
from kit.log.engine_steps import (
    HOME,
    SMALL,
    ZERO,
    change_content,
    open_log,
    overwrite,
    segment_files,
)
from kit.log.filled_log import LARGE, filled, places, readable
from kit.log.sample_batches import keys_of, plain_batch, read_all
from kit.storage.versioned_document import sealed_json

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import place_of
from log_tier.model.errors import LogDamaged, UnknownFormat
from log_tier.model.identifiers import Offset
from log_tier.model.log import Topic


async def two_alike(path: Path, records: int) -> tuple[Topic, Topic]:
    """Two topics of two partitions whose files look alike: the same keys at the same offsets, other values."""
    async with await EmbeddedLog.open(path, settings=SMALL) as log:
        topics = [await log.create_topic(name, partitions=2) for name in ("flights", "trains")]
        for number in range(records):
            for topic in topics:
                for partition in range(2):
                    value = f"{topic.name}{partition}".encode().ljust(20)
                    await log.append(topic.partition(partition), plain_batch(f"k{number:03}", value=value))
    return topics[0], topics[1]


@pytest.mark.parametrize("whose", ["other partition", "other table"])
@pytest.mark.parametrize("what", ["a sealed segment", "the newest segment", "all files", "one batch"])
async def test_a_batch_of_another_partition_is_damage_and_never_served(tmp_path: Path, whose: str, what: str) -> None:
    """Its checksums hold and its offset fits: only its stamp says that it belongs to another partition."""
    flights, trains = await two_alike(tmp_path / "log", 60)
    topics = tmp_path / "log" / "topics"
    here = topics / flights.id / "0"
    there = topics / flights.id / "1" if whose == "other partition" else topics / trains.id / "0"
    files = sorted(here.glob("*.log"))
    assert len(files) > 2
    if what == "all files":
        for file in there.iterdir():
            (here / file.name).write_bytes(file.read_bytes())
    elif what == "one batch":
        mine, other = files[1].read_bytes(), (there / files[1].name).read_bytes()
        ends = places(mine)
        assert ends == places(other)
        files[1].write_bytes(mine[: ends[2]] + other[ends[2] : ends[3]] + mine[ends[3] :])
    else:
        file = files[1 if what == "a sealed segment" else -1]
        file.write_bytes((there / file.name).read_bytes())
    async with await EmbeddedLog.open(tmp_path / "log", settings=SMALL) as log:
        found, damage = await readable(log, flights)
        assert damage is not None
        assert any("another partition's" in each.message for each in (damage, *log.recovery.damages))
        assert str(here) in str(damage.fields["file"])
        assert list(found) == list(range(len(found)))
        assert len(found) <= int(damage.fields["offset"]), "what lies before it is served, and nothing of it"
        assert len(await read_all(log, trains.id, 1)) == 60


async def test_a_batch_of_an_older_client_is_stored_with_the_stronger_stamp() -> None:
    disk = MemoryDisk()
    old = bytes.fromhex((Path(__file__).parents[2] / "model" / "fixtures" / "batch_v1_plain.hex").read_text())
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=1)
        place = await log.append(topic.partition(ZERO), old)
        assert place.base_offset == 0
        (stored,) = await read_all(log, topic.id)
        batch = decode_batch(stored, place_of(topic.partition(ZERO)))
        assert batch.header.version == 2
        assert batch.columns.keys == decode_batch(old).columns.keys


async def test_segments_of_batch_version_1_are_read_on() -> None:
    """A log that an older version wrote: its batches have the weaker stamp, and new ones follow them."""
    disk, topic = await filled(3, LARGE, clean=True)
    (path,) = segment_files(disk, topic)
    data, ends = bytes(disk.files[path].content), places(bytes(disk.files[path].content))
    overwrite(disk, path, b"".join(as_version_1(data[a:b]) for a, b in pairwise(ends)))
    async with await open_log(disk, LARGE) as log:
        assert str(log.recovery) == "nothing to recover"
        assert (await log.append(topic.partition(ZERO), plain_batch("new"))).base_offset == 3
    async with await open_log(disk, LARGE) as log:
        assert keys_of(await read_all(log, topic.id)) == {0: b"k0", 1: b"k1", 2: b"k2", 3: b"new"}


async def test_a_batch_of_a_newer_format_is_never_cut() -> None:
    """A newer version was killed, and this one is started on its log: the batch was acknowledged."""
    disk, topic = await filled(3, LARGE, clean=False)
    (path,) = segment_files(disk, topic)
    disk.files.pop(path.with_suffix(".index"), None)
    data = bytes(disk.files[path].content)
    at = places(data)[-2]
    newer = data[: at + 4] + b"\3" + data[at + 5 :]
    change_content(disk, path, newer)
    async with await open_log(disk, LARGE) as log:
        (damage,) = log.recovery.damages
        assert "version 3, this process reads up to version 2: upgrade Duramen here" in damage.message
        assert not log.recovery.cuts
        with pytest.raises(LogDamaged, match="version 3"):
            await log.append(topic.partition(ZERO), plain_batch("new"))
    assert bytes(disk.files[path].content).startswith(newer)


@pytest.mark.parametrize("rests", [False, True], ids=["opened", "at rest"])
async def test_a_checkpoint_of_a_newer_format_is_kept(rests: bool) -> None:
    """What it protects is not known, so nothing is written to its partition, and it is not written over."""
    settings = replace(LARGE, summary_partitions_min=1) if rests else LARGE
    disk, topic = await filled(3, settings, clean=True)
    path = HOME / "topics" / topic.id / "0" / "checkpoint.json"
    newer = sealed_json(bytes(disk.files[path].content), lambda fields: fields.update(version=2))
    if rests:  # as a newer version left all of it
        disk.files[path].content[:] = newer
        async with await open_log(disk, settings) as log:
            with pytest.raises(UnknownFormat, match=r"checkpoint\.json has format version 2.*update this process"):
                await log.append(topic.partition(ZERO), plain_batch("new"))
            with pytest.raises(UnknownFormat, match="update this process"):
                await read_all(log, topic.id)
    else:
        overwrite(disk, path, newer)
        with pytest.raises(UnknownFormat, match=r"checkpoint\.json has format version 2.*update this process"):
            await open_log(disk, settings)
    assert bytes(disk.files[path].content) == newer


def as_version_1(batch: bytes) -> bytes:
    """A stored batch as version 1 would have stored it."""
    middle = b"\1" + batch[5:12]
    body: int = google_crc32c.extend(google_crc32c.value(middle), batch[40:])
    head: bytes = batch[:4] + middle + body.to_bytes(4, "little") + batch[16:36]
    checksum: int = google_crc32c.value(head)
    return head + checksum.to_bytes(4, "little") + batch[40:]


async def test_another_partitions_checkpoint_removes_nothing() -> None:
    """It says that its own partition was trimmed: believed here, it would remove segments that nobody gave up."""
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=2)
        for number in range(60):
            for partition in range(2):
                await log.append(topic.partition(partition), plain_batch(f"k{number:02}", value=b"x" * 60))
        await log.trim(topic.partition(1), Offset(40))
    mine, other = (segment_files(disk, topic, number)[0].parent / "checkpoint.json" for number in (0, 1))
    overwrite(disk, mine, bytes(disk.files[other].content))
    async with await open_log(disk) as log:
        assert sorted(keys_of(await read_all(log, topic.id))) == list(range(60))
        (note,) = log.recovery.notes
        assert f"{mine} is of partition {topic.id}/1" in note


async def test_another_tables_description_is_refused() -> None:
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        flights = await log.create_topic("flights", partitions=2)
        trains = await log.create_topic("trains", partitions=1)
    mine, other = (HOME / "topics" / topic.id / "topic.json" for topic in (flights, trains))
    overwrite(disk, mine, bytes(disk.files[other].content))
    with pytest.raises(LogDamaged, match=f"{mine} is of topic {trains.id}"):
        await open_log(disk)
