"""Recovery, as scripts: what happened to a partition's files, and what opening the log makes of it.

A script is blocks between blank lines: a story's steps a line, `---`, and what came of each. Record again with
DURAMEN_RECORD=1. A story begins with a new disk; its table has two partitions, and what happens to files happens to
those of partition 0. Between `close` or `kill` and `open` are the events of `EVENTS`.

    append 25     so many batches of one record, each committed by itself
    both          one commit of two batches, one for each partition: it goes through the journal
    close, kill   how the process ends
    open          the log is opened: the report, and what partition 0 holds
    write         one append to each partition
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from kit.golden import check_script
from kit.log.engine_steps import HOME, SMALL, ZERO, copy_of, open_log, overwrite, segment_files
from kit.log.filled_log import places
from kit.log.sample_batches import plain_batch

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog
from log_tier.embedded.storage import names
from log_tier.model.batch_header import MAGIC
from log_tier.model.errors import DuramenError, LogDamaged
from log_tier.model.identifiers import Partition, PartitionId
from log_tier.model.log import Appended, Topic

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))

STATES: Final = ("closed", "killed", "closed, damaged", "killed, damaged")
"""How the last process ended, and whether it knew of damage in partition 0."""

Segment = list[Path]
Event = Callable[[MemoryDisk, Segment], None]


def change(disk: MemoryDisk, path: Path, at: int, data: bytes) -> None:
    """Write `data` over the bytes of a file; behind its end it grows."""
    content = bytearray(bytes(disk.files[path].content).ljust(disk.files[path].length, b"\0"))
    content[at : at + len(data)] = data
    overwrite(disk, path, bytes(content))


def flip(disk: MemoryDisk, path: Path, batch: int) -> None:
    """One bit in the body of a batch, counted as in a list."""
    content = bytes(disk.files[path].content)
    at = places(content)[:-1][batch] + 70
    change(disk, path, at, bytes([content[at] ^ 4]))


def end_of(disk: MemoryDisk, path: Path) -> int:
    return places(bytes(disk.files[path].content))[-1]


def last_of(disk: MemoryDisk, path: Path) -> int:
    """Where the last batch begins."""
    return places(bytes(disk.files[path].content))[-2]


def shorten(disk: MemoryDisk, path: Path, length: int) -> None:
    overwrite(disk, path, bytes(disk.files[path].content)[:length])


def named_so(disk: MemoryDisk, *ends: str) -> list[Path]:
    """The files of partition 0, and of the log, whose names end so."""
    found = [path for path in disk.files if path.name.endswith(ends) and path.parent.name != "1"]
    assert found, f"no file ends in {ends}"
    return found


def garble(disk: MemoryDisk, *ends: str) -> None:
    for path in named_so(disk, *ends):
        overwrite(disk, path, b"{".ljust(disk.files[path].length, b"?"))


def remove(disk: MemoryDisk, *ends: str) -> None:
    for path in named_so(disk, *ends):
        del disk.files[path]


def lose_last(disk: MemoryDisk, path: Path) -> None:
    """The last batch, as zeros: the device had not written it when the power failed."""
    begin, end = last_of(disk, path), end_of(disk, path)
    change(disk, path, begin, bytes(end - begin))


EVENTS: Final[dict[str, Event]] = {
    "nothing happens": lambda disk, files: None,
    "garbage behind the end": lambda disk, files: change(disk, files[-1], end_of(disk, files[-1]), b"torn" * 9),
    "the last batch is zeros": lambda disk, files: lose_last(disk, files[-1]),
    "a bit flips in the last batch": lambda disk, files: flip(disk, files[-1], -1),
    "a bit flips in the newest segment": lambda disk, files: flip(disk, files[-1], 1),
    "a bit flips at the end of a sealed segment": lambda disk, files: flip(disk, files[0], -1),
    "the newest segment is cut in a batch": lambda disk, files: shorten(disk, files[-1], last_of(disk, files[-1]) + 9),
    "the newest segment is emptied": lambda disk, files: shorten(disk, files[-1], 0),
    "the newest segment is removed": lambda disk, files: remove(disk, files[-1].name),
    "the oldest segment is removed": lambda disk, files: remove(disk, files[0].name),
    "the index files are removed": lambda disk, files: remove(disk, ".index"),
    "the checkpoint is removed": lambda disk, files: remove(disk, names.CHECKPOINT),
    "the checkpoint is garbage": lambda disk, files: garble(disk, names.CHECKPOINT),
    "the journal's files are removed": lambda disk, files: remove(disk, *names.JOURNALS),
    "the journal's files are garbage": lambda disk, files: garble(disk, *names.JOURNALS),
    "an operator gives the journal up": lambda disk, files: remove(disk, *names.JOURNALS, names.JOURNAL_WITNESS),
}


class Story:
    """A log on a disk in memory, opened and ended as the steps say."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.log: EmbeddedLog | None = None
        self.topic: Topic | None = None
        self.state = ""
        self.met: set[tuple[str, str]] = set()
        """Each state with the event that met it."""

    async def end(self) -> None:
        if self.log is not None:
            await self.log.close()

    async def do(self, line: str) -> list[str]:
        if line in EVENTS:
            assert self.log is None, f"{line!r}: the log is open"
            assert self.topic is not None
            self.met.add((self.state, line))
            EVENTS[line](self.disk, segment_files(self.disk, self.topic))
            return []
        verb, *words = line.split()
        if verb == "open":
            return await self._open()
        if self.log is None:
            return ["the log is not open"]
        assert self.topic is not None
        if verb == "append":
            for number in range(int(words[0])):
                place = await self.log.append(
                    PartitionId(self.topic.id, ZERO), plain_batch(f"k{number:03}", value=bytes(100))
                )
            return [f"up to offset {place.base_offset}, {len(segment_files(self.disk, self.topic))} segments"]
        if verb == "both":
            return [", ".join(await self._append(0, 1))]
        if verb == "write":
            return [", ".join([*await self._append(0), *await self._append(1)])]
        assert verb in ("close", "kill"), f"{line!r} is no step"
        damaged = bool(self.log.recovery.damages)
        left = copy_of(self.disk)
        await self.log.close()
        self.log = None
        if verb == "kill":
            self.disk = left
        self.state = ("closed" if verb == "close" else "killed") + (", damaged" if damaged else "")
        return [self.state]

    async def _append(self, *partitions: int) -> list[str]:
        """Append a batch to each of the partitions, in one commit."""
        assert self.log is not None
        assert self.topic is not None
        id_ = self.topic.id
        parts = [(PartitionId(id_, Partition(number)), plain_batch("k")) for number in partitions]
        places = await self.log.append_many(parts)
        ends = [f"offset {each.base_offset}" if isinstance(each, Appended) else type(each).__name__ for each in places]
        return [f"partition {number}: {end}" for number, end in zip(partitions, ends, strict=True)]

    async def _open(self) -> list[str]:
        try:
            self.log = await open_log(self.disk, SMALL)
        except LogDamaged as error:
            assert self.topic is not None
            return [f"refused: {short(error.message, self.topic)}"]
        if self.topic is None:
            self.topic = await self.log.create_topic("flights", partitions=2)
            return ["a new log"]
        said = short(str(self.log.recovery), self.topic)
        bounds = await self.log.bounds(PartitionId(self.topic.id, ZERO))
        read = 0
        try:
            async for chunk in self.log.read(PartitionId(self.topic.id, ZERO), bounds.earliest, follow=False):
                read += chunk.data.count(MAGIC)
        except DuramenError as error:
            reads = f"{read} batches are read, then {type(error).__name__}"
        else:
            reads = f"{read} batches are read"
        return [*said.splitlines(), f"offsets {bounds.earliest} to {bounds.latest}; {reads}"]


def short(report: str, topic: Topic) -> str:
    """A report without what differs from run to run, and without what every line about damage ends with."""
    report = report.replace(str(HOME / "topics" / topic.id), "flights").replace(str(HOME), "log")
    report = re.sub(r"checksum is \w{8}, its bytes give \w{8}", "checksum is A, its bytes give B", report)
    return re.sub(r"\. Nothing was cut; .*", "", report)


async def play(text: str, met: set[tuple[str, str]] | None = None) -> str:
    """The script with what comes of each step. `met` gets each state with the event that met it."""
    blocks: list[str] = []
    for block in text.strip().split("\n\n"):
        asked = block.split("\n---")[0]
        story = Story()
        said: list[str] = []
        try:
            for line in asked.splitlines():
                if not line.startswith("#"):
                    said += await story.do(line)
        finally:
            await story.end()
        if met is not None:
            met |= story.met
        blocks.append("\n".join([asked, "---", *said]))
    return "\n\n".join(blocks) + "\n"


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 5


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
async def test_script(script: Path) -> None:
    check_script(script, await play(script.read_text(encoding="utf-8")))


async def test_the_scripts_show_every_event_in_every_state() -> None:
    met: set[tuple[str, str]] = set()
    for script in SCRIPTS:
        await play(script.read_text(encoding="utf-8"), met)
    missing = {(state, event) for state in STATES for event in EVENTS} - met
    assert not missing, f"no script shows {sorted(missing)}"
