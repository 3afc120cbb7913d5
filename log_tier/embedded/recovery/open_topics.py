"""Opening what a log's folder holds: the journal first, then every topic's partitions with what the journal proves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from log_tier.concurrency.descriptors import descriptor_shares
from log_tier.embedded.commit.journal import Journal
from log_tier.embedded.recovery.data_folder import DataFolder
from log_tier.embedded.recovery.open_partition import RecoveryReport, open_partition
from log_tier.embedded.segments.open_files import OpenFiles
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.segments.tail_cache import TailMemory
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import NO_SPACE, Disk, SyncFailed
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.model.identifiers import Offset, PartitionId, table_id_to_bytes
from log_tier.model.log import Topic

__all__ = ["OpenTopic", "TopicOpener"]


@dataclass(slots=True)
class OpenTopic:
    """A topic whose partitions are open."""

    topic: Topic
    partitions: list[PartitionLog]


class TopicOpener:
    """Opens the topics of one log; they share its memory for tails and its open files."""

    def __init__(self, folder: DataFolder, disk: Disk, settings: EngineSettings) -> None:
        self._folder, self._disk, self._settings = folder, disk, settings
        self._files = OpenFiles(settings.open_segments_max or descriptor_shares().segments)
        self._proved: dict[PartitionId, Offset] = {}
        """The ends of partitions that the journal proves."""
        self.memory = TailMemory(settings.tail_bytes_max)
        self.report = RecoveryReport()
        """What opening found."""

    def open_journal(self) -> Journal | None:
        """Open the journal and replay it; None if the disk is too full for one. Raises `OSError`, `LogDamaged`."""
        try:
            journal, replayed = Journal.open(
                self._disk,
                self._folder.path,
                size=self._settings.journal_bytes,
                log_id=table_id_to_bytes(self._folder.identity),
                segment_of=self._newest_segment,
                workers=self._settings.workers,
            )
        except OSError as error:
            if error.errno not in NO_SPACE or isinstance(error, SyncFailed):
                raise
            self.report.notes.append("there is no room for a journal: each partition of a commit is synced by itself")
            return None
        if replayed.cut is not None:
            self.report.cuts.append(replayed.cut)
        self.report.notes.extend(replayed.notes)
        self._proved = replayed.ends
        return journal

    def _newest_segment(self, partition: PartitionId, base: Offset) -> Path | None:
        folder = self._folder.partition_folder(partition)
        if not self._disk.exists(folder):
            return None
        bases = [found for name in self._disk.list(folder) if (found := names.segment_base(name)) is not None]
        return folder / names.segment_name(base) if bases and max(bases) == base else None

    def open_topic(self, topic: Topic) -> OpenTopic:
        """Open every partition of a topic, after the journal. Raises `OSError`."""
        return OpenTopic(
            topic,
            [
                open_partition(
                    f"{topic.name}/{partition.partition}",
                    partition,
                    self._folder.partition_folder(partition),
                    disk=self._disk,
                    settings=self._settings,
                    memory=self.memory,
                    report=self.report,
                    proved_end=self._proved.get(partition, Offset(0)),
                    files=self._files,
                )
                for partition in map(topic.partition, range(topic.partitions))
            ],
        )
