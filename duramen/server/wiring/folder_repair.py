"""Repairing a data folder at rest: its log from a copy, its indexes by removing those that are damaged."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from log_tier.embedded.repair import GiveUp, LogRepair, RepairPlan, RepairStep
from log_tier.embedded.storage.disk import hold_lock
from log_tier.embedded.storage.names import MARKER, TOPICS
from log_tier.model.errors import DiskFailed, FolderInUse, InvalidRequest
from log_tier.open import LOG_FOLDER
from serving_tier.names import INDEX_FOLDER, NODE_LOCK, damaged_folder
from serving_tier.node.verification import index_folders, verify_index_folder

__all__ = ["FolderRepair"]


class FolderRepair:
    """One repair of a data folder: of `duramen up`, of a log, or of a serving node. Use it as a context.

    Raises `FolderInUse` while a process has the folder or the copy, `InvalidRequest` for folders that are none, for one
    that is its own copy, and for a copy of another log.
    """

    def __init__(self, data: Path, copy: Path | None, give_up: GiveUp) -> None:
        self._data, self._copy, self._give_up = data, copy, give_up
        self._log = _log_in(data)
        self._held = ExitStack()
        self._repair: LogRepair | None = None
        self._indexes: list[Path] = []
        """Folders of indexes that are removed."""

    def __enter__(self) -> Self:
        copy = None if self._copy is None else _log_in(self._copy)
        if self._log is None and not (self._data / INDEX_FOLDER).is_dir():
            raise InvalidRequest(
                f"{self._data} is no data folder: name the one that `duramen up --data` or `duramen serve --data` has"
            )
        if self._copy is not None and copy is None:
            raise InvalidRequest(f"{self._copy} is no copy of a log: it has no {MARKER}; name a data folder's copy")
        if self._log is not None and copy is not None and os.path.samefile(self._log, copy):
            raise InvalidRequest(f"{self._copy} is {self._data} itself: name another folder, with a copy of it")
        try:
            self._held.callback(hold_lock(self._data / NODE_LOCK))
            if self._log is not None:
                repair = LogRepair(self._log, copy=copy, give_up=self._give_up)
                self._repair = self._held.enter_context(repair)
            elif self._give_up:
                raise InvalidRequest(f"{self._data} has no log: nothing of it can be given up")
        except FolderInUse as error:
            self._held.close()
            if "the copy" in error.message:
                raise
            process = f", process {error.fields['pid']}" if "pid" in error.fields else ""
            message = f"{self._data} is open in another Duramen{process}, and nothing was changed: stop that process"
            raise FolderInUse(message, **error.fields) from error
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def plan(self) -> RepairPlan:
        """What will be done. Changes nothing; reads the whole log and the structure of each index."""
        plan = RepairPlan() if self._repair is None else self._repair.plan()
        self._indexes = []
        for folder in index_folders(self._data / INDEX_FOLDER):
            found = [each for each in verify_index_folder(folder) if each.is_damage]
            if found:
                self._indexes.append(folder)
                what = f"{found[0].message}: it is moved away, and the node makes it anew"
                plan.steps.append(RepairStep("index", folder, what))
        return plan

    def carry_out(self) -> list[Path]:
        """Do what the last `plan` says; return the folders in which the old files are."""
        old = None if self._repair is None else self._repair.carry_out()
        moved = [_move_away(folder) for folder in self._indexes]
        return [*([] if old is None else [old]), *moved]


def _log_in(folder: Path) -> Path | None:
    """The log's folder: the one that is named, or the one in it."""
    for each in (folder, folder / LOG_FOLDER):
        if (each / MARKER).exists() or (each / TOPICS).is_dir():
            return each
    return None


def _move_away(folder: Path) -> Path:
    """Rename an index's folder, so that no node takes it for one."""
    number = 1
    while (place := damaged_folder(folder, number)).exists():
        number += 1
    try:
        folder.rename(place)
    except OSError as error:
        message = f"{folder} cannot be moved away ({error.strerror}): remove it by hand; it is a cache of the log"
        raise DiskFailed(message, file=str(folder)) from error
    return place
