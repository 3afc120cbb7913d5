"""Opening what a log's folder holds: the journal first, then every topic's partitions with what the journal proves."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from log_tier.concurrency.descriptors import descriptor_shares
from log_tier.concurrency.disk_errors import NO_SPACE
from log_tier.embedded.commit.journal import Journal
from log_tier.embedded.recovery.data_folder import DataFolder
from log_tier.embedded.recovery.log_summary import LogSummary, PartitionSummary, TopicSummary
from log_tier.embedded.recovery.many_looks import look_at_many
from log_tier.embedded.recovery.open_partition import RecoveryReport, look_at_partition
from log_tier.embedded.segments.log_resources import LogResources
from log_tier.embedded.segments.open_files import OpenFiles
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.segments.partition_state import PartitionState
from log_tier.embedded.segments.settling import Settling
from log_tier.embedded.segments.tail_cache import TailMemory
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, SyncFailed
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.model.identifiers import RESERVED_PREFIX, Offset, PartitionId, TableId, table_id_to_bytes
from log_tier.model.log import Topic
from log_tier.model.moves import MoveFeed
from log_tier.tracing.written import WrittenTraces

__all__ = ["OpenTopic", "TopicOpener"]

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenTopic:
    """A topic whose partitions are open."""

    topic: Topic
    partitions: list[PartitionLog]


class TopicOpener:
    """Opens the topics of one log; they share its memory for tails and its open files."""

    def __init__(self, folder: DataFolder, disk: Disk, settings: EngineSettings) -> None:
        self._folder, self._disk, self._settings = folder, disk, settings
        self.memory = TailMemory(settings.tail_bytes_max)
        files = OpenFiles(settings.open_segments_max or descriptor_shares().segments)
        self.moves = MoveFeed()
        self._resources = LogResources(disk, settings, self.memory, files, self.moves, Settling(), WrittenTraces())
        self._proved: dict[PartitionId, Offset] = {}
        """The ends of partitions that the journal proves."""
        self._summary = LogSummary()
        """What the last clean close left."""
        self._same: set[PartitionId] = set()
        """The partitions whose files are as the last clean close left them."""
        self._same_topics: set[TableId] = set()
        """The topics whose own file is as the last clean close left it."""
        self.report = RecoveryReport()
        """What opening found."""

    def take_summary(self) -> list[Topic]:
        """Take what the last clean close left, before anything else is done; return the topics whose files are as they
        were then. Raises `OSError`.
        """
        self._summary = LogSummary.take(self._disk, self._folder.path, self._folder.identity)
        topics: list[Topic] = []
        folder = self._folder.path / names.TOPICS
        for each in self._summary.topics.values():
            same = each.unchanged(self._disk, folder)
            if same is not None:
                topics.append(each.topic)
                self._same_topics.add(each.topic.id)
                self._same |= same
        return topics

    def open_journal(self) -> Journal | None:
        """Open the journal and replay it; None if the disk is too full for one. Raises `OSError`, `LogDamaged`.

        A summary that is not of the clean close of which the journal tells is dropped.
        """
        summary, self._summary = self._summary, LogSummary()
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
        self._resources.settling.wait = journal.wait_settled
        self._proved = replayed.ends
        if replayed.clean and replayed.generation == summary.generation:
            self._summary = summary
        return journal

    def _newest_segment(self, partition: PartitionId, base: Offset) -> Path | None:
        folder = self._folder.partition_folder(partition)
        if not self._disk.exists(folder):
            return None
        bases = [found for name in self._disk.list(folder) if (found := names.segment_base(name)) is not None]
        return folder / names.segment_name(base) if bases and max(bases) == base else None

    def open_topics(self, topics: Sequence[Topic]) -> list[OpenTopic]:
        """Open every partition of these topics, after the journal. Raises `OSError`.

        What is not at rest is looked at first; the report has the findings in the order of the topics.
        """
        names = [(topic, topic.partition(number)) for topic in topics for number in range(topic.partitions)]
        looked = [(topic, name) for topic, name in names if self._at_rest(topic, name) is None]
        places = [(self._folder.partition_folder(name), self.proved_end(topic, name)) for topic, name in looked]
        found = look_at_many(places, self._disk, self._settings)
        states: dict[PartitionId, PartitionState] = {}
        for (_, name), (state, report) in zip(looked, found, strict=True):
            states[name] = state
            self.report.add(report)
        return [
            OpenTopic(topic, [self._open(topic, topic.partition(number), states) for number in range(topic.partitions)])
            for topic in topics
        ]

    def proved_end(self, topic: Topic, partition: PartitionId) -> Offset:
        """An end that the partition had on stable storage: as the summary of a clean close or the journal says."""
        summary = self._closed_partition(topic, partition)
        return self._proved.get(partition, Offset(0)) if summary is None else summary.end

    def _closed_partition(self, topic: Topic, partition: PartitionId) -> PartitionSummary | None:
        """A partition as the last clean close left it; None where it has to be looked at."""
        before = self._closed(topic)
        return None if before is None else before.partitions[partition.partition]

    def _closed(self, topic: Topic) -> TopicSummary | None:
        """A topic as the last clean close left it."""
        found = self._summary.topics.get(topic.id)
        return None if found is None or found.topic != topic else found

    def _at_rest(self, topic: Topic, partition: PartitionId) -> PartitionSummary | None:
        """The summary of a partition that stays at rest; None: it is looked at now."""
        # Every start reads Duramen's own topics, so they gain nothing by being at rest, and damage of theirs would be
        # named twice: by the look at the files, and by the reader that waits for it.
        if partition not in self._same or topic.name.startswith(RESERVED_PREFIX):
            return None
        return self._closed_partition(topic, partition)

    def _open(self, topic: Topic, partition: PartitionId, states: Mapping[PartitionId, PartitionState]) -> PartitionLog:
        """Open a partition as it was found; what is not in `states` is at rest."""
        name, folder = f"{topic.name}/{partition.partition}", self._folder.partition_folder(partition)
        if (state := states.get(partition)) is not None:
            return PartitionLog(name, partition, folder, self._resources, state=state)
        summary = self._at_rest(topic, partition)
        assert summary is not None, f"{name} was not looked at, and is not at rest"
        return PartitionLog(
            name,
            partition,
            folder,
            self._resources,
            state=summary.state(folder),
            look=lambda: self._look(folder, summary.end),
        )

    def _look(self, folder: Path, end: Offset) -> PartitionState:
        """Look at the files of a partition at rest. Findings are logged and added to the report, as no caller waits."""
        found = RecoveryReport()
        state = look_at_partition(folder, self._disk, self._settings, report=found, proved_end=end)
        for damage in found.damages:
            _logger.error("%s", damage.message)
        for one in (*found.cuts, *found.notes):
            _logger.warning("%s", one)
        self.report.add(found)
        return state

    def write_summary(self, topics: Iterable[OpenTopic], journal: Journal) -> None:
        """After a clean close: write down what the next open may leave at rest. Raises `OSError`."""
        topics = list(topics)
        if sum(len(each.partitions) for each in topics) < self._settings.summary_partitions_min:
            return
        found = {each.topic.id: self._summary_of(each) for each in topics}
        LogSummary(journal.generation, found).write(self._disk, self._folder.path, self._folder.identity)

    def _summary_of(self, opened: OpenTopic) -> TopicSummary:
        """What was at rest keeps the identities that it had: a file that somebody else has changed meanwhile is seen by
        the next open. What is damaged keeps its proof.
        """
        topic = opened.topic
        before = self._closed(topic)
        if before is not None and topic.id in self._same_topics:
            file = before.file
        else:
            folder = self._folder.path.joinpath(names.TOPICS, topic.id)
            (file,) = self._disk.identities(folder, (names.TOPIC_FILE,))
        if before is None:
            return TopicSummary(topic, file, tuple(map(PartitionSummary.of, opened.partitions)))
        partitions = zip(opened.partitions, before.partitions, strict=True)
        return TopicSummary(
            topic,
            file,
            tuple(
                known if log.is_at_rest or (known and log.damage) else PartitionSummary.of(log)
                for log, known in partitions
            ),
        )
