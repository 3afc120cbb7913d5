"""The repair of a log that nobody has open: its folder is locked, the plan is made, and carried out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.embedded.recovery.data_folder import DataFolder, read_identity
from log_tier.embedded.recovery.open_topics import TopicOpener
from log_tier.embedded.repair.copy_log import CopyLog
from log_tier.embedded.repair.old_files import OldFiles
from log_tier.embedded.repair.planning import GiveUp, LogPlanning, PartitionWork, RepairPlan
from log_tier.embedded.repair.rewriting import PartitionRewriting
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, LocalDisk, hold_lock, replace_file
from log_tier.embedded.storage.refusal import refusal_of
from log_tier.embedded.storage.settings import ClockMs, EngineSettings
from log_tier.embedded.verification.overlay_disk import OverlayDisk
from log_tier.model.errors import DiskFull, InvalidRequest

__all__ = ["LogRepair"]


class LogRepair:
    """One repair of a log's folder. Use it as a context: the folder and the copy's are held meanwhile.

    `copy`: the folder of a copy's log; None: only what needs no copy is repaired. Errors: `InvalidRequest` for folders
    that are no log's, for a copy of another log, and for offsets of partitions that do not exist; `FolderInUse`;
    `UnknownFormat`; what the disk refuses.
    """

    def __init__(
        self,
        folder: Path,
        *,
        copy: Path | None = None,
        give_up: GiveUp | None = None,
        disk: Disk | None = None,
        copy_disk: Disk | None = None,
        settings: EngineSettings | None = None,
        clock: ClockMs = SYSTEM_CLOCK.wall_ms,
    ) -> None:
        self._folder, self._copy_folder, self._give_up = folder, copy, give_up or {}
        self._disk = LocalDisk() if disk is None else disk
        self._copy_disk = self._disk if copy_disk is None else copy_disk
        has_lock = self._disk.exists(folder / names.LOCK)
        self._hold = hold_lock if disk is None and has_lock else self._disk.lock
        self._hold_copy: Callable[[Path], Callable[[], None]] = hold_lock
        if copy_disk is not None or disk is not None:
            self._hold_copy = self._copy_disk.lock
        self._settings, self._clock = settings or EngineSettings(), clock
        self._held = ExitStack()
        self._copy: CopyLog | None = None
        self._plan: RepairPlan | None = None
        self._old = OldFiles(self._disk, folder)

    def __enter__(self) -> Self:
        try:
            if not (self._disk.exists(self._folder / names.MARKER) or self._disk.exists(self._folder / names.TOPICS)):
                raise InvalidRequest(f"{self._folder} is no log's folder: name the one that holds {names.MARKER}")
            self._held.callback(self._hold(self._folder / names.LOCK))
            if self._copy_folder is not None:
                self._copy = CopyLog.open(self._copy_disk, self._copy_folder, self._settings, hold=self._hold_copy)
                self._held.callback(self._copy.close)
        except OSError as error:
            self._held.close()
            raise refusal_of(error, self._folder) from error
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def plan(self) -> RepairPlan:
        """What is damaged and what will be done about it. Changes nothing; reads the whole log."""
        overlay = OverlayDisk(self._disk, hold=self._hold)
        planning = LogPlanning(self._disk, overlay, self._folder, self._copy, self._give_up, self._settings)
        try:
            self._plan = planning.run()
        except OSError as error:
            raise refusal_of(error, self._folder) from error
        return self._plan

    def carry_out(self) -> Path | None:
        """Do what the last `plan` says; return the folder in which the old files are, if any was replaced.

        If it fails or the machine stops, what is there is damaged as before, or repaired, or can be repaired with the
        same copy and the same offsets. Raises what the disk refuses, `DiskFull` among it.
        """
        assert self._plan is not None, "a repair is planned first"
        try:
            self._carry_out(self._plan)
        except OSError as error:
            raise refusal_of(error, self._folder) from error
        return self._old.folder

    def _carry_out(self, plan: RepairPlan) -> None:
        if not plan.steps:
            return
        works = [(work, self._rewriting(work)) for work in plan.partitions]
        for new in plan.files:
            self._old.put(new.path, new.data)
        for work, rewriting in works:
            if work.is_needed:
                rewriting.write_checkpoint()
            elif plan.settles and work.survey.facts.holes:
                rewriting.write_checkpoint(proof_only=True)
        for new in plan.journal:
            self._old.put(new.path, new.data)
        if plan.settles:
            self._settle(plan)
        for work, rewriting in works:
            if work.is_needed:
                rewriting.write_segments()
                rewriting.finish(self._clock)
            for stale in work.survey.stale:
                path = stale.segment.index_path
                data = stale.entries.encode(stale.segment.base)
                replace_file(self._disk, path, data, part=path.with_name(path.name + names.PART))
        for path in plan.removed:
            self._old.remove(path)

    def _rewriting(self, work: PartitionWork) -> PartitionRewriting:
        copy = None
        if self._copy is not None:
            table, number = work.partition
            copy = self._copy.disk, self._copy.partition_folder(table, number)
        return PartitionRewriting(
            self._disk,
            work.folder,
            work.partition,
            work.survey,
            work.plan,
            copy=copy,
            old=self._old,
            settings=self._settings,
        )

    def _settle(self, plan: RepairPlan) -> None:
        """Replay the journal and begin it anew, as an open and a clean close do: segments need no frame afterwards.

        After a clean close no frame is needed. Then a damaged file goes first, and what says that it is not needed goes
        last.
        """
        for name in (*names.JOURNALS, names.JOURNAL_WITNESS):
            path = self._folder / name
            if plan.is_clean and self._disk.exists(path):
                self._old.remove(path)
            self._old.keep(path)
        identity = read_identity(self._disk, self._folder / names.MARKER)
        folder = DataFolder(
            self._disk, self._folder, identity=identity, random_bytes=self._settings.random_bytes, release=_keep_on
        )
        journal = TopicOpener(folder, self._disk, self._settings).open_journal()
        if journal is None:
            raise DiskFull(f"there is no room for a journal in {self._folder}: free space, and repair again")
        journal.close(settle=True)


def _keep_on() -> None:
    """The folder stays locked: the repair holds it."""
