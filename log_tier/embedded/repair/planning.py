"""The plan of a log's repair: what is damaged, what the copy has of it, and what becomes of it. Nothing is changed.

Planning repairs in memory. What stands in the way of reading on (a marker, a topic's file, a checkpoint, the journal)
is put in place in an `OverlayDisk` first, and recovery runs over it; then every byte of every partition is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from log_tier.embedded.recovery.data_folder import DataFolder, read_identity
from log_tier.embedded.recovery.log_summary import LogSummary
from log_tier.embedded.recovery.open_partition import RecoveryReport, look_at_partition
from log_tier.embedded.recovery.open_topics import TopicOpener
from log_tier.embedded.repair.copy_log import CopyLog
from log_tier.embedded.repair.documents import FoundCheckpoint, NewFile, find_checkpoint, mended_marker, mended_topic
from log_tier.embedded.repair.journal_files import look_at_journal, mended_journal
from log_tier.embedded.repair.partition_plan import PartitionPlan, Refusal, plan_partition
from log_tier.embedded.repair.survey import PartitionSurvey, survey_copy, survey_partition
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, replace_file
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.embedded.verification.overlay_disk import OverlayDisk
from log_tier.model.errors import DuramenError, InvalidRequest, UnknownFormat
from log_tier.model.identifiers import RESERVED_PREFIX, SERVERS_TABLES, Offset, OffsetRange, PartitionId, TableId
from log_tier.model.log import Topic

__all__ = ["GiveUp", "LogPlanning", "PartitionWork", "RepairPlan", "RepairStep"]

GiveUp = Mapping[tuple[str, int], Sequence[OffsetRange]]
"""By topic name and partition: the offsets that an operator gives up."""

_NOTHING: Final[tuple[OffsetRange, ...]] = ()


class RepairStep(NamedTuple):
    """One thing that a repair does."""

    kind: str
    """`file`, `taken`, `given_up`, `trimmed` or `index`."""
    file: Path
    what: str
    partition: str = ""
    offsets: tuple[OffsetRange, ...] = ()


class PartitionWork(NamedTuple):
    """A partition, and what is done to it."""

    partition: PartitionId
    folder: Path
    found: FoundCheckpoint
    survey: PartitionSurvey
    plan: PartitionPlan

    @property
    def is_needed(self) -> bool:
        """Is a file of it written, apart from caches?"""
        checkpoint, plan = self.survey.checkpoint, self.plan
        is_changed = bool(plan.segments) or plan.record != checkpoint.given_up or plan.earliest is not None
        return not plan.refusals and (is_changed or checkpoint.is_half_mended or bool(self.found.why))


@dataclass(slots=True)
class RepairPlan:
    """What a repair will do, and what it will not do."""

    files: list[NewFile] = field(default_factory=list)
    """Small files that stand first: the log's and its topics' own."""
    journal: list[NewFile] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    settles: bool = False
    """Is the journal replayed and begun anew?"""
    is_clean: bool = False
    """Was the log closed cleanly, so that no frame of the journal is needed?"""
    partitions: list[PartitionWork] = field(default_factory=list)
    steps: list[RepairStep] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def given_up(self) -> bool:
        """Does it give up anything?"""
        return any(step.kind in ("given_up", "trimmed") for step in self.steps)


class LogPlanning:
    """Makes the plan. `overlay` is over `disk`, and takes what the plan would change."""

    def __init__(
        self,
        disk: Disk,
        overlay: OverlayDisk,
        folder: Path,
        copy: CopyLog | None,
        give_up: GiveUp,
        settings: EngineSettings,
    ) -> None:
        self._disk, self._overlay, self._path, self._copy = disk, overlay, folder, copy
        self._give_up, self._settings = dict(give_up), settings
        self._plan = RepairPlan(notes=[] if copy is None else list(copy.notes))

    def run(self) -> RepairPlan:
        """Plan. Reads the whole log, and of the copy what is needed.

        Raises `InvalidRequest`, `UnknownFormat`, `OSError`.
        """
        plan, overlay = self._plan, self._overlay
        self._put(plan.files, mended_marker(overlay, self._path, self._copy))
        identity = read_identity(overlay, self._path / names.MARKER)
        entropy = self._settings.random_bytes
        folder = DataFolder(overlay, self._path, identity=identity, random_bytes=entropy, release=_keep_on)
        topics = list(self._topics(folder))
        found = {name: self._checkpoints(topic) for name, topic in topics}
        self._check_summary(identity)
        if not self._mend_journal(identity, topics):
            return plan
        opener = TopicOpener(folder, overlay, self._settings)
        opener.take_summary()
        journal = opener.open_journal()
        if journal is not None:
            journal.close(settle=False)
        for name, topic in topics:
            for number in range(topic.partitions):
                checkpoint = found[name].get(number)
                if checkpoint is not None:
                    self._partition(topic, topic.partition(number), opener, checkpoint)
        for table, number in self._give_up:
            raise InvalidRequest(f"{table}/{number} is no partition of this log: nothing of it can be given up")
        plan.settles = plan.settles or (bool(plan.steps) and not plan.is_clean)
        return plan

    # --- small files

    def _put(self, files: list[NewFile], new: NewFile | None) -> None:
        if new is not None:
            files.append(new)
            self._plan.steps.append(RepairStep("file", new.path, new.what))
            part = new.path.with_name(new.path.name + names.PART)
            replace_file(self._overlay, new.path, new.data, part=part)

    def _topics(self, folder: DataFolder) -> Iterator[tuple[str, Topic]]:
        """The topics, by the names of their folders."""
        top = self._path / names.TOPICS
        for name in self._overlay.list(top) if self._overlay.exists(top) else ():
            if names.topic_leftover(name):
                continue
            if names.topic_name(name) is None:
                self._plan.refusals.append(Refusal(name, f"{top / name} is no topic: move it away"))
                continue
            path = top / name / names.TOPIC_FILE
            try:
                yield name, folder.topic_in(name)
                continue
            except UnknownFormat:
                raise
            except (DuramenError, FileNotFoundError) as error:
                why = error.message if isinstance(error, DuramenError) else f"{path} is missing"
            new = mended_topic(path, TableId(name), why, self._copy)
            if isinstance(new, Refusal):
                self._plan.refusals.append(new)
            else:
                self._put(self._plan.files, new)
                yield name, folder.topic_in(name)

    def _checkpoints(self, topic: Topic) -> dict[int, FoundCheckpoint]:
        """What is known of each partition's bounds, put in place; of one that cannot be repaired nothing."""
        found: dict[int, FoundCheckpoint] = {}
        for number in range(topic.partitions):
            folder = self._path.joinpath(names.TOPICS, topic.id, str(number))
            copied = None if self._copy is None else self._copy.partition_folder(topic.id, number)
            is_there = self._overlay.exists(folder)
            if not is_there and (copied is None or self._copy is None or not self._copy.disk.exists(copied)):
                why = f"{folder} is missing, and with it what it held: name a copy that has it (--from)"
                self._plan.refusals.append(Refusal(f"{topic.name}/{number}", why))
                continue
            self._overlay.make_folder(folder)
            theirs = None if self._copy is None else self._copy.checkpoint(topic.id, number)
            try:
                one = find_checkpoint(self._overlay, folder, theirs)
            except UnknownFormat as error:
                self._plan.refusals.append(Refusal(f"{topic.name}/{number}", error.message))
                continue
            if not is_there:
                one = one._replace(why=f"{folder} is missing: made anew")
            if one.why:
                one.checkpoint.write(self._overlay, folder / names.CHECKPOINT)
            found[number] = one
        return found

    def _check_summary(self, identity: TableId) -> None:
        path = self._path / names.SUMMARY
        if self._overlay.exists(path):
            try:
                LogSummary.read(self._overlay, self._path, identity)
            except DuramenError as error:
                self._plan.removed.append(path)
                self._plan.steps.append(RepairStep("file", path, f"{error.message}: removed"))

    def _mend_journal(self, identity: TableId, topics: Sequence[tuple[str, Topic]]) -> bool:
        """Put a journal in place that can be replayed; False where there is none."""
        plan = self._plan
        state = look_at_journal(self._overlay, self._path, identity)
        plan.is_clean = state.is_clean
        if state.damage is not None:
            new = mended_journal(
                self._overlay, self._path, identity, self._copy, is_behind=lambda: self._copy_is_behind(topics)
            )
            if isinstance(new, str):
                plan.refusals.append(Refusal("journal", f"{state.damage.message}. Not repaired: {new}"))
                return False
            for each in new:
                self._put(plan.journal, each)
            plan.settles = True
        if state.faults:
            plan.settles = True
            what = "replayed and begun anew" if not state.is_clean else "begun anew"
            plan.steps += [
                RepairStep("file", self._path / names.JOURNAL_WITNESS, f"{why}: the journal is {what}")
                for why in state.faults
            ]
        return True

    def _copy_is_behind(self, topics: Sequence[tuple[str, Topic]]) -> str:
        assert self._copy is not None, "a journal is taken from a copy"
        scratch = OverlayDisk(self._overlay, hold=lambda path: _keep_on)
        for _, topic in topics:
            for number in range(topic.partitions):
                ours = self._end(scratch, self._path.joinpath(names.TOPICS, topic.id, str(number)))
                theirs = self._end(self._copy.disk, self._copy.partition_folder(topic.id, number))
                if theirs < ours:
                    return f"{topic.name}/{number} ends with offset {theirs - 1} in it, and with {ours - 1} here"
        return ""

    def _end(self, disk: Disk, folder: Path) -> Offset:
        if not disk.exists(folder):
            return Offset(0)
        state = look_at_partition(folder, disk, self._settings, report=RecoveryReport())
        return state.segments[-1].end if state.segments else state.checkpoint.earliest

    # --- partitions

    def _partition(self, topic: Topic, partition: PartitionId, opener: TopicOpener, found: FoundCheckpoint) -> None:
        name, folder = f"{topic.name}/{partition.partition}", self._path.joinpath(names.TOPICS, *_parts(partition))
        give_up = self._give_up.pop((topic.name, partition.partition), _NOTHING)
        survey = survey_partition(
            self._overlay,
            folder,
            name,
            self._settings,
            proved_end=opener.proved_end(topic, partition),
            is_trim_known=found.is_trim_known,
            surely_compacted=found.surely_compacted,
        )
        facts, copied = survey.facts, None
        needs_copy = bool(facts.holes) or any(each.last >= facts.end for each in give_up)
        if self._copy is not None:
            there = self._copy.partition_folder(topic.id, partition.partition)
            if needs_copy:
                copied = survey_copy(self._copy.disk, there, self._settings, facts)
            elif (end := self._end(self._copy.disk, there)) > facts.end:
                self._plan.notes.append(
                    f"{name} ends with offset {facts.end - 1}, and in the copy with {end - 1}: nothing shows that this "
                    "log has held more, and nothing of it is taken"
                )
        plan = plan_partition(facts, copied, give_up)
        work = PartitionWork(partition, folder, found, survey, plan)
        self._plan.partitions.append(work)
        self._plan.refusals += plan.refusals
        if not plan.refusals:
            self._plan.steps += _steps(work)
            if plan.given_up and topic.name.startswith(RESERVED_PREFIX) and topic.name not in SERVERS_TABLES:
                self._plan.notes.append(f"{name} holds the catalog: restart every server of the cluster afterwards")
        self._plan.steps += [
            RepairStep("index", stale.segment.index_path, f"{stale.segment.index_path}: {stale.why}: made anew", name)
            for stale in survey.stale
        ]


def _steps(work: PartitionWork) -> Iterator[RepairStep]:
    plan, name = work.plan, work.survey.facts.name
    path = work.folder / names.CHECKPOINT
    if work.found.why:
        yield RepairStep("file", path, work.found.why, name)
    if work.survey.checkpoint.is_half_mended:
        yield RepairStep("file", path, f"{path}: a repair that was interrupted is ended", name)
    files = [work.folder / names.segment_name(new.base) for new in plan.segments]
    where = ", ".join(map(str, files))
    for kind, ranges, what in (
        ("taken", tuple(plan.taken), "taken from the copy"),
        ("given_up", plan.given_up, "given up: no record is there any more"),
        ("trimmed", plan.trimmed, "given up: the partition begins behind them"),
    ):
        if ranges:
            offsets = ", ".join(map(str, ranges))
            yield RepairStep(kind, files[0] if files else path, f"{name}: {offsets} {what}", name, ranges)
    if files:
        is_alone = not (plan.taken or plan.given_up or plan.trimmed)
        why = "bytes that belong nowhere are removed from" if is_alone else "written anew:"
        yield RepairStep("segment", files[0], f"{name}: {why} {where}", name)


def _parts(partition: PartitionId) -> tuple[str, str]:
    return partition.table, names.partition_name(partition.partition)


def _keep_on() -> None:
    """The folder stays locked: the repair holds it."""
