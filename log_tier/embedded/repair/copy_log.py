"""The copy of a log from which another one is repaired: a folder that nobody has open. It is only read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

from log_tier.embedded.recovery.data_folder import DataFolder
from log_tier.embedded.recovery.open_topics import TopicOpener
from log_tier.embedded.storage import names
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.embedded.storage.disk import Disk
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.embedded.verification.overlay_disk import OverlayDisk
from log_tier.model.errors import DuramenError, FolderInUse, InvalidRequest
from log_tier.model.identifiers import TableId
from log_tier.model.log import Topic

__all__ = ["CopyLog"]


class CopyLog:
    """A copy, as its own next start would find it: recovery runs over it in memory."""

    def __init__(self, raw: Disk, overlay: OverlayDisk, folder: DataFolder) -> None:
        self.raw = raw
        """Its files as they lie there."""
        self.disk = overlay
        """Its files after recovery."""
        self.path = folder.path
        self.identity = folder.identity
        self.notes: list[str] = []
        """What it lacks."""
        self._folder = folder

    @classmethod
    def open(
        cls, disk: Disk, path: Path, settings: EngineSettings, *, hold: Callable[[Path], Callable[[], None]]
    ) -> Self:
        """Hold a copy's folder, and recover it in memory.

        Raises `InvalidRequest` where there is no log, `FolderInUse`, and what keeps a log from being opened
        (`UnknownFormat`, `LogDamaged` for its own file), `OSError`.
        """
        if not disk.exists(path / names.MARKER):
            raise InvalidRequest(f"{path} is no copy of a log: it has no {names.MARKER}; name a data folder's copy")
        overlay = OverlayDisk(disk, hold=hold)
        try:
            owned = DataFolder.open(overlay, path, random_bytes=settings.random_bytes)
        except FolderInUse as error:
            process = f", process {error.fields['pid']}" if "pid" in error.fields else ""
            raise FolderInUse(
                f"the copy {path} is open in another Duramen{process}, and nothing was changed: stop that process, or "
                "name a snapshot of the file system",
                **error.fields,
            ) from error
        copy = cls(disk, overlay, owned)
        try:
            opener = TopicOpener(owned, overlay, settings)
            opener.take_summary()
            try:
                journal = opener.open_journal()
            except DuramenError as error:
                copy.notes.append(f"what only the copy's journal holds is not used: {error.message}")
            else:
                if journal is not None:
                    journal.close(settle=False)
        except BaseException:
            copy.close()
            raise
        return copy

    def close(self) -> None:
        """Give the folder back."""
        self._folder.close()

    def topic(self, topic: TableId) -> Topic | None:
        """One of its topics; None if it has no such topic, or cannot say."""
        try:
            return self._folder.topic_in(topic) if self.disk.exists(self.topic_folder(topic)) else None
        except (DuramenError, OSError):
            return None

    def topic_folder(self, topic: TableId) -> Path:
        """The folder of a topic."""
        return self.path / names.TOPICS / topic

    def partition_folder(self, topic: TableId, number: int) -> Path:
        """The folder of a partition."""
        return self.topic_folder(topic) / str(number)

    def checkpoint(self, topic: TableId, number: int) -> Checkpoint | None:
        """A partition's checkpoint; None if there is none that can be read."""
        path = self.partition_folder(topic, number) / names.CHECKPOINT
        try:
            return Checkpoint.read(self.raw, path) if self.raw.exists(path) else None
        except (DuramenError, OSError):
            return None
