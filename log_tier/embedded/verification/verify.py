"""Verifying a log: recovery over an overlay, then every byte that recovery did not need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from log_tier.embedded.recovery.data_folder import DataFolder
from log_tier.embedded.recovery.open_partition import RecoveryReport, look_at_partition
from log_tier.embedded.recovery.open_topics import TopicOpener
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, LocalDisk, hold_lock
from log_tier.embedded.storage.refusal import refusal_of
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.embedded.verification.overlay_disk import OverlayDisk
from log_tier.embedded.verification.segments import check_segment
from log_tier.embedded.verification.small_files import check_checkpoint, check_log_files
from log_tier.model.errors import DuramenError, ForeignFolder, InvalidRequest, UnknownFormat
from log_tier.model.files.finding import FileFinding
from log_tier.model.identifiers import PartitionId
from log_tier.model.log import Topic

__all__ = ["LogVerification", "verify_log"]

_STRANGE: Final = "Nothing else was looked at: whose files the others are is not known"


@dataclass(slots=True)
class LogVerification:
    """The files and batches that a verification has examined so far."""

    topics: int = 0
    partitions: int = 0
    segments: int = 0
    bytes: int = 0
    """Of batches."""


def verify_log(
    folder: Path,
    *,
    seen: LogVerification | None = None,
    disk: Disk | None = None,
    settings: EngineSettings | None = None,
) -> Iterator[FileFinding]:
    """What is wrong with a log's folder, file by file; nothing if all is as the log wrote it. `seen` counts meanwhile.

    Reads every segment: 2 s of processor time for a GB. Raises `FolderInUse` while somebody has the log open, and
    `InvalidRequest` where there is none.
    """
    local = LocalDisk() if disk is None else disk
    marker = folder / names.MARKER
    if not local.exists(marker):
        if not local.exists(folder / names.TOPICS):
            raise InvalidRequest(f"{folder} is no log's folder: name the one that holds {marker.name}")
        yield FileFinding(marker, f"{marker} is missing: restore it from a copy. {_STRANGE}", remedy="copy")
        return
    overlay = OverlayDisk(local, hold=hold_lock if disk is None else disk.lock)
    settings = settings or EngineSettings()
    try:
        owned = DataFolder.open(overlay, folder, random_bytes=settings.random_bytes)
    except DuramenError as error:
        if error.fields.get("file") is None and not isinstance(error, ForeignFolder):
            raise
        found = FileFinding.of(error, marker)._replace(message=f"{error.message}. {_STRANGE}")
        yield found if isinstance(error, UnknownFormat) else found._replace(remedy="copy")
        return
    try:
        yield from _Look(owned, local, overlay, settings, seen or LogVerification()).findings()
    except OSError as error:
        raise refusal_of(error, folder) from error
    finally:
        owned.close()


class _Look:
    """One verification of a folder that nobody else has."""

    def __init__(
        self, folder: DataFolder, local: Disk, overlay: OverlayDisk, settings: EngineSettings, seen: LogVerification
    ) -> None:
        self._local, self._overlay, self._settings, self._seen = local, overlay, settings, seen
        self._folder = folder
        self._opener = TopicOpener(folder, overlay, settings)

    def findings(self) -> Iterator[FileFinding]:
        """All of them, the log's own files first."""
        path = self._folder.path
        yield from check_log_files(self._local, path, self._folder.identity)
        self._opener.take_summary()
        try:
            journal = self._opener.open_journal()
        except DuramenError as error:
            yield FileFinding.of(error, path)
        else:
            if journal is not None:
                journal.close(settle=False)
            yield from _notes(self._opener.report, path)
        for name in self._overlay.list(path / names.TOPICS):
            yield from self._topic(path / names.TOPICS / name)

    def _topic(self, folder: Path) -> Iterator[FileFinding]:
        if names.topic_leftover(folder.name):
            yield FileFinding(
                folder, f"{folder} is of a topic that was being made or removed: the next start removes it", False
            )
            return
        path = folder / names.TOPIC_FILE
        topic: Topic | None
        try:
            topic = self._folder.topic_in(folder.name)
        except DuramenError as error:
            found = FileFinding.of(error, path)
            yield found._replace(remedy="copy") if isinstance(error, ForeignFolder) else found
            topic = self._as_it_lies(folder)
        except FileNotFoundError:
            yield FileFinding(path, f"{path} is missing: restore it from a copy", remedy="copy")
            topic = self._as_it_lies(folder)
        if topic is None:
            return
        self._seen.topics += 1
        for number in range(topic.partitions):
            yield from self._partition(topic, topic.partition(number))

    def _as_it_lies(self, folder: Path) -> Topic | None:
        """A topic whose own file cannot be read: as many partitions as there are folders."""
        table = names.topic_name(folder.name)
        with suppress(OSError):
            numbers = [int(name) for name in self._overlay.list(folder) if name.isdecimal()]
            return None if table is None else Topic(table, folder.name, max(numbers, default=-1) + 1)
        return None

    def _partition(self, topic: Topic, partition: PartitionId) -> Iterator[FileFinding]:
        folder = self._folder.partition_folder(partition)
        if not self._overlay.exists(folder):
            message = f"{folder} is missing: restore it from a copy, or serve from a snapshot"
            yield FileFinding(folder, message, remedy="copy")
            return
        yield from check_checkpoint(self._local, folder)
        report = RecoveryReport()
        proved = self._opener.proved_end(topic, partition)
        try:
            state = look_at_partition(folder, self._overlay, self._settings, report=report, proved_end=proved)
        except UnknownFormat:
            return  # the finding about its checkpoint says so
        yield from (FileFinding.of(damage, folder) for damage in report.damages)
        yield from _notes(RecoveryReport(cuts=report.cuts), folder)
        if state.checkpoint.given_up:
            ranges = ", ".join(map(str, state.checkpoint.given_up))
            yield FileFinding(folder, f"{folder}: a repair gave up {ranges}: no record is there", False)
        known = {(damage.fields.get("file"), damage.fields.get("position")) for damage in report.damages}
        for segment in state.segments:
            self._seen.segments += 1
            self._seen.bytes += segment.bytes
            for finding in check_segment(
                self._overlay, segment, state.checkpoint, is_newest=segment is state.segments[-1]
            ):
                if (str(finding.file), finding.position) not in known:
                    yield finding
        self._seen.partitions += 1


def _notes(report: RecoveryReport, folder: Path) -> Iterator[FileFinding]:
    """What the next start puts right, as what it will do."""
    for cut in report.cuts:
        yield FileFinding(Path(cut.file), f"the next start: {cut}", False, cut.position)
    for note in report.notes:
        yield FileFinding(folder, f"the next start: {note}", False)
