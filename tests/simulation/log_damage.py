"""A disk that lies under a log: which refusals it excuses, what may be cut, and what a verification must name.

Damage is done to bytes of files, so it is known which batches it hit: the log may refuse these with their place, and
behind them where it cannot tell how the newest segment ends. Nothing else may be refused, and nothing may be wrong. The
last commit before an unclean end is the exception that no log with one copy can tell from a tear: it may be cut, with a
report.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, NamedTuple

from duramen.testing.machine.memory_disk import Inode, MemoryDisk
from duramen.testing.machine.simulated_disk import FaultyDisk
from log_tier.embedded import EmbeddedLog, EngineSettings, RecoveryReport
from log_tier.embedded.commit.journal_replay import JournalCut
from log_tier.embedded.storage import names
from log_tier.embedded.verification.verify import verify_log
from log_tier.model.batch_header import HEADER_BYTES, MAGIC, read_header, split_batches
from log_tier.model.errors import BatchRefused, DuramenError, UnknownFormat
from log_tier.model.identifiers import Offset
from log_tier.model.log import Topic
from simulation.book import Book, Broken, Record, records_in

__all__ = ["LogDamage"]

_REFUSALS: Final = ("log_damaged", "foreign_folder", "unknown_format", "batch_refused")

Place = tuple[str, int]
"""Topic and partition."""


class _Hit(NamedTuple):
    """A batch, as it was written."""

    position: int
    end: int
    base: int
    last: int
    unsynced: int


class LogDamage:
    """What was done to the disk of a log, over all its lives. Without damage it excuses nothing."""

    def __init__(self, disk: FaultyDisk, home: Path) -> None:
        self._disk, self._home = disk, home
        disk.damaged = self._note
        self._files: set[Path] = set()
        """Those that were ever damaged, since the last time that all was put right."""
        self._hit: dict[Place, set[int]] = defaultdict(set)
        """Offsets whose batches were hit."""
        self._places: set[tuple[Path, int, int]] = set()
        """By file, begin and end: where these batches are."""
        self.cut: set[Place] = set()
        """Partitions of which a last commit was cut, or the room behind it while the checkpoint could not be read. A
        checkpoint that is put right may still know of it."""
        self._commits: dict[Place, list[_Hit]] = {}
        """The batches of each newest segment, as they were written, before the log was opened."""
        self._is_right = False
        """Everything is put right, and the life that goes on may remember damage."""
        self._unnamed: set[Path] = set()
        """What a verification has not named."""
        self._closed_at: dict[Place, int] = {}
        """From which offset on a partition refuses, since recovery found damage at the end of its log."""

    def _note(self, file: Path) -> None:
        self._files.add(file)
        self._look(self._disk.now)

    def put_right(self) -> None:
        """Everything is put back from a copy of the disk: nothing is excused any more in the next life."""
        self._disk.heal()
        # A checkpoint is put right as it was when it was damaged; the segments may have been cut and sealed since.
        checkpoints = [file for file in self._files if file.name == names.CHECKPOINT]
        self.cut.update(place for file in checkpoints if (place := _place(file)) is not None)
        self._is_right = True

    # --- refusals

    def excuses(self, error: DuramenError) -> bool:
        """Is this the refusal of something that was damaged?"""
        if error.code not in _REFUSALS:
            return False
        self._look(self._disk.now)
        file = error.fields.get("file")
        named = Path(str(file)) if file is not None else None
        # A folder that is not recognised is named by the words alone.
        if named is None:
            return any(str(each) in error.message for each in self._files)
        return any(each == named or named in each.parents for each in self._files) or _place(named) in self.cut

    def check(self, error: DuramenError, what: str) -> None:
        """Raise `Broken` where damage is reported, and there is none."""
        if error.code in _REFUSALS and not self.excuses(error):
            name = "I8" if self._files else "damage"
            raise Broken(name, f"{what}: {error.message}, and damaged were {sorted(map(str, self._files)) or 'none'}")

    def put_right_for(self, error: DuramenError) -> None:
        """An operator restores the one file that keeps a log from opening."""
        for file in sorted(each for each in self._files if str(each) in error.message):
            self._disk.heal(file)

    # --- lives

    def before_open(self, disk: MemoryDisk) -> None:
        """A life is about to begin on this disk."""
        if self._is_right:
            self._files.clear()
            self._hit.clear()
            self._places.clear()
            self._is_right = False
        self._look(disk)
        self._commits = {}
        self._closed_at = {}
        for path in sorted(path for path in disk.files if path.suffix == ".log"):
            place = _place(path)
            if place is not None:
                self._commits[place] = _batches(disk.files[path])

    def opened(self, recovery: RecoveryReport, book: Book) -> None:
        """Judge what recovery says. Raises `Broken`."""
        for damage in recovery.damages:
            self.check(damage, "recovery says")
            place = _place(Path(str(damage.fields["file"])))
            if place is not None:
                offset = int(str(damage.fields.get("offset", 0)))
                self._closed_at[place] = min(offset, self._closed_at.get(place, offset))
        for cut in recovery.cuts:
            if isinstance(cut, JournalCut):
                if Path(cut.file) in self._files:
                    for place in list(self._commits):
                        self._forget(book, place, self._last_commit(place))
                continue
            place = _place(Path(cut.file))
            if place is not None and self._has_lost_checkpoint(place):
                self.cut.add(place)
            if place is not None and cut.offset in self._hit[place]:
                later = [each for each in self._commits[place] if each.base > cut.offset]
                proof = next((each for each in later if each.base - each.unsynced > cut.offset), None)
                if proof is not None:
                    raise Broken("I8", f"{cut}, and the batch at {proof.base} proves that it had been on the disk")
                self._forget(book, place, cut.offset)

    def _has_lost_checkpoint(self, place: Place) -> bool:
        return any(file.name == names.CHECKPOINT and _place(file) == place for file in self._files)

    def _forget(self, book: Book, place: Place, begin: int) -> None:
        self.cut.add(place)
        book.forget(place, begin)

    def _last_commit(self, place: Place) -> int:
        batches = self._commits[place]
        return batches[-1].base - batches[-1].unsynced if batches else 0

    # --- what is served

    async def read(
        self, log: EmbeddedLog, topic: Topic, partition: int, book: Book
    ) -> tuple[dict[int, Record], set[int]]:
        """Every record that is served, and the offsets that are refused for damage. Raises `Broken` for a refusal of
        what was not hit.
        """
        place, where = (str(topic.id), partition), topic.partition(partition)
        bounds = await log.bounds(where)
        found: dict[int, Record] = {}
        refused: set[int] = set()
        at, latest = int(bounds.earliest), max(int(bounds.latest), book.last_known(place))
        while at <= latest:
            try:
                reader: Any = log.read(where, Offset(at), follow=False)
                async with aclosing(reader) as chunks:
                    async for chunk in chunks:
                        records = records_in(split_batches(chunk.data))
                        found |= records
                        at = max([at - 1, *records]) + 1
                break
            except DuramenError as error:
                if error.code == "token_ahead":
                    break  # the book says what is missing
                self.check(error, f"a read of {partition}@{at} is answered")
                if error.code not in _REFUSALS:
                    raise
                self._look(self._disk.now)
                self._check_place(place, at, error)
                refused.add(at)
                at += 1
        if self._has_lost_checkpoint(place):
            # Without it recovery says that losses may go unnoticed: it cannot tell a hole from what a compaction left.
            refused.update(set(range(int(bounds.earliest), latest + 1)) - found.keys())
        if at <= latest and at in self._hit[place] and at >= self._last_commit(place):
            self._forget(book, place, at)  # the last commit went astray, and left no trace
        return found, refused

    def _check_place(self, place: Place, at: int, error: DuramenError) -> None:
        """What is refused was hit, or is behind what was hit: a reader cannot always pass that."""
        file, position = Path(str(error.fields["file"])), int(str(error.fields.get("position", -1)))
        is_hit = any(path == file and begin <= position < end for path, begin, end in self._places)
        if at < self._closed_at.get(place, at + 1) and not is_hit and place not in self.cut:
            raise Broken("I8", f"{place[1]}@{at} is refused ({error.message}), and hit were {sorted(self._places)}")

    # --- what is found at rest

    def verify(self, settings: EngineSettings) -> None:
        """Note which files have damaged batches, and are not named by a verification of the log at rest. It looks no
        further where it cannot tell whose folder it is.
        """
        if self._files:
            copy = self._disk.copy()
            named = {finding.file for finding in verify_log(self._home, disk=copy, settings=settings)}
            damaged = {path for path, inode in copy.files.items() if path.suffix == ".log" and _hits(inode)}
            self._unnamed = set() if self._home / names.MARKER in named else damaged - named

    def check_unnamed(self, book: Book) -> None:
        """After the next start: what a verification does not name, the journal has put right, or it is a last commit
        of which nothing is there, and nobody knows: it is as if it had not been written. Raises `Broken`.
        """
        for path in sorted(self._unnamed):
            inode, place = self._disk.now.files.get(path), _place(path)
            if inode is None or place is None or place in self.cut:
                continue
            known = book.last_known(place)
            if hits := [each for each in _hits(inode) if each.base <= known or each.base < self._last_commit(place)]:
                raise Broken("I8", f"{path} is damaged at byte {hits[0].position}, and a verification says nothing")

    def _look(self, disk: MemoryDisk) -> None:
        """Take note of what is damaged, under the names that the files have now."""
        for path, inode in disk.files.items():
            if inode.wounds:
                self._files.add(path)
                place = _place(path)
                for hit in _hits(inode) if path.suffix == ".log" and place is not None else ():
                    self._places.add((path, hit.position, hit.end))
                    self._hit[place or ("", 0)].update(range(hit.base, hit.last + 1))


def _place(file: Path) -> Place | None:
    """The partition whose folder a file is in."""
    topic = names.topic_name(file.parent.parent.name)
    return (str(topic), int(file.parent.name)) if topic is not None and file.parent.name.isdecimal() else None


def _batches(inode: Inode) -> list[_Hit]:
    """The batches of a segment, as they were written."""
    content = bytearray(inode.content)
    for wound in inode.wounds:
        content.extend(bytes(max(0, wound.end - len(content))))
        content[wound.position : wound.end] = wound.good
    found: list[_Hit] = []
    at = 0
    while content[at : at + len(MAGIC)] == MAGIC and at + HEADER_BYTES <= len(content):
        try:
            header = read_header(bytes(content), at)
        except (BatchRefused, UnknownFormat):
            break  # a write of which a loss of power has left a part
        found.append(_Hit(at, at + header.length, header.base_offset, header.last_offset, header.unsynced))
        at += header.length
    return found


def _hits(inode: Inode) -> list[_Hit]:
    """Those of them that were hit."""
    return [
        batch for batch in _batches(inode) if any(wound.overlaps(batch.position, batch.end) for wound in inode.wounds)
    ]
