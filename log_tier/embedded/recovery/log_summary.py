"""What a clean close of many partitions left, in one file, so that the next open need not look into the others.

    close    every partition is finished, the journal says "clean, generation G"; then `summary.json` is written, with G
    open     the file is read and removed, before anything else is written; the journal must say the same of G

A partition is taken from it as it is, *at rest*, if its files are still those that the close left: by inode, size and
times of its folder, its checkpoint and its segments. Its first write, or the first read of its files, looks at them as
an open without a summary does (`open_partition.look_at_partition`). The summary's end counts as proved then, so a file
that was damaged without a trace in its times, or put in place by whatever trick, is refused by name as ever.

Everything else is opened at once: a partition that was damaged, has many segments, or whose files are others now; of
the last ones the end is proved all the same. So the summary can be lost, torn, of an older close or of another folder,
and costs time and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.segments.partition_state import PartitionState
from log_tier.embedded.segments.segment import Segment
from log_tier.embedded.storage import names
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.embedded.storage.disk import Disk, FileIdentity, replace_file
from log_tier.model.errors import DuramenError, LogDamaged
from log_tier.model.files.sealed_json import SealedKind
from log_tier.model.identifiers import NOTHING, Offset, PartitionId, TableId
from log_tier.model.log import Topic

__all__ = ["LogSummary", "PartitionSummary", "TopicSummary"]

_logger = logging.getLogger(__name__)

# Some 200 bytes a partition. A log of more than that many spends its open on other things.
_BYTES_MAX: Final = 64 << 20

# A partition of more segments is opened at once. It wakes in the writer's thread, while others wait.
_SEGMENTS_MAX: Final = 4

_SEALED: Final = SealedKind(
    "duramen-log-summary",
    1,
    bytes_max=_BYTES_MAX,
    damage=LogDamaged,
    remedy="it is not used",
    upgrade="it is not used",
    indent=None,
)

_Identities = tuple[FileIdentity | None, ...]


class PartitionSummary(NamedTuple):
    """A partition after a clean close."""

    segments: tuple[tuple[int, int, int, int], ...]
    """Base, end, bytes, newest timestamp; oldest first."""
    files: _Identities
    """Its folder, its checkpoint, and its segments."""
    compacted: int = 0
    """As in the checkpoint; missing in files of earlier versions."""

    @classmethod
    def of(cls, log: PartitionLog) -> Self | None:
        """The summary of a closed partition; None if the next open has to look at its files. Of one that gave offsets
        up it reads which.
        """
        segments = log.segments
        if log.damage is not None or len(segments) > _SEGMENTS_MAX or log.checkpoint.given_up:
            return None
        if segments and log.checkpoint.clean_bytes != segments[-1].bytes:
            return None
        found = log.disk.identities(log.folder, _file_names("", [segment.base for segment in segments]))
        for segment, file in zip(segments, found[2:], strict=True):
            if file is None or file.size != segment.bytes:
                return None
        facts = tuple((each.base, each.end, each.bytes, each.newest_ms) for each in segments)
        return cls(facts, tuple(found), log.checkpoint.compacted)

    def state(self, folder: Path) -> PartitionState:
        """The partition at rest."""
        segments = [Segment(folder, Offset(base), Offset(end), size, ms) for base, end, size, ms in self.segments]
        if not segments:
            return PartitionState([], Checkpoint())
        first, last = segments[0], segments[-1]
        checkpoint = Checkpoint(first.base, last.end, last.base, last.bytes, last.bytes, Offset(self.compacted))
        return PartitionState(segments, checkpoint)

    @property
    def end(self) -> Offset:
        """The offset after the partition's last one."""
        return Offset(self.segments[-1][1] if self.segments else 0)


class TopicSummary(NamedTuple):
    """A topic after a clean close."""

    topic: Topic
    file: FileIdentity | None
    """Identity of the topic's own file."""
    partitions: tuple[PartitionSummary | None, ...]

    def unchanged(self, disk: Disk, topics: Path) -> set[PartitionId] | None:
        """The partitions whose files are those that the close left; None where its own file is another one. Does not
        raise.
        """
        here = self.topic.id
        places = [f"{here}/{names.TOPIC_FILE}"]
        for number, partition in enumerate(self.partitions):
            if partition is not None:
                places += _file_names(f"{here}/{number}/", [segment[0] for segment in partition.segments])
        try:
            found = disk.identities(topics, places)
        except OSError:
            return None  # opening it meets the error again, and raises it
        if self.file is None or found[0] != self.file:
            return None
        at = 1
        same: set[PartitionId] = set()
        for number, partition in enumerate(self.partitions):
            if partition is not None:
                files = tuple(found[at : at + len(partition.files)])
                at += len(partition.files)
                if files == partition.files and files[0] is not None:
                    same.add(self.topic.partition(number))
        return same


class LogSummary(NamedTuple):
    """A log after a clean close."""

    generation: int = NOTHING
    """The generation of the journal at the close."""
    topics: Mapping[TableId, TopicSummary] = {}

    @classmethod
    def take(cls, disk: Disk, folder: Path, log_id: TableId) -> Self:
        """Read the summary in a log's folder, and remove it; an empty one where there is none that can be used.

        One sync if there is one. Raises `OSError`.
        """
        path = folder / names.SUMMARY
        if not disk.exists(path):
            return cls()
        try:
            found = cls.read(disk, folder, log_id)
        except DuramenError as error:
            _logger.warning("all partitions are looked at: %s", error.message)
            found = cls()
        disk.unlink(path)
        disk.sync_folder(folder)
        return found

    @classmethod
    def read(cls, disk: Disk, folder: Path, log_id: TableId) -> Self:
        """Read the summary in a log's folder. Raises `LogDamaged` and `UnknownFormat` for one that cannot be used, and
        `OSError`.
        """
        path = folder / names.SUMMARY
        file = disk.open(path)
        try:
            data = file.pread(min(file.size(), _BYTES_MAX + 1), 0)
        finally:
            file.close()
        fields = _SEALED.parse(data, str(path))
        try:
            if fields["log"] != log_id:
                message = f"{path} is of the log {fields['log']} and not of this one: it is not used"
                raise LogDamaged(message, file=str(path))
            return cls(int(fields["generation"]), {each.topic.id: each for each in map(_topic, fields["topics"])})
        except (KeyError, TypeError, ValueError) as error:
            raise LogDamaged(f"{path} cannot be read ({error!r}): it is not used", file=str(path)) from error

    def write(self, disk: Disk, folder: Path, log_id: TableId) -> None:
        """Write the summary. If the disk refuses, a warning is logged and the log has no summary. Two syncs."""
        topics = [_row(topic) for topic in self.topics.values()]
        data = _SEALED.write({"log": log_id, "generation": self.generation, "topics": topics})
        path = folder / names.SUMMARY
        if len(data) > _BYTES_MAX:
            return
        try:
            replace_file(disk, path, data, part=path.with_name(path.name + names.PART))
        except OSError as error:
            _logger.warning("%s was not written (%s): the next open looks at all partitions", path, error)


def _file_names(prefix: str, bases: Iterable[int]) -> list[str]:
    """The folder, the checkpoint and the segments of a partition, below `prefix`."""
    segments = (prefix + names.segment_name(Offset(base)) for base in bases)
    return [prefix or ".", prefix + names.CHECKPOINT, *segments]


def _row(summary: TopicSummary) -> list[Any]:
    topic = summary.topic
    partitions = [each and (each if each.compacted else each[:2]) for each in summary.partitions]
    return [topic.id, topic.name, topic.partitions, summary.file, partitions]


def _topic(row: Sequence[Any]) -> TopicSummary:
    table, name, count, file, partitions = row
    topic = Topic(TableId(str(table)), str(name), int(count))
    if len(partitions) != topic.partitions:
        raise ValueError(f"topic {name} has {count} partitions, and {len(partitions)} are described")
    return TopicSummary(topic, _identity(file), tuple(map(_partition, partitions)))


def _partition(row: Sequence[Any] | None) -> PartitionSummary | None:
    if row is None:
        return None
    segments, files, *compacted = row
    if len(files) != len(segments) + 2:
        raise ValueError(f"{len(segments)} segments and {len(files)} files do not fit")
    numbers = tuple((int(base), int(end), int(size), int(ms)) for base, end, size, ms in segments)
    return PartitionSummary(numbers, tuple(map(_identity, files)), *map(int, compacted))


def _identity(row: Sequence[Any] | None) -> FileIdentity | None:
    return None if row is None else FileIdentity(*map(int, row))
