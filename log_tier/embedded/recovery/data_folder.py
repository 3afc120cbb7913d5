"""The folder of an embedded log: whose it is, which format it has, and which topics are in it.

A folder becomes a log's when its marker is written, last of all; before that it must be empty. One process owns it at a
time, by a lock on a file that the kernel releases when the process ends, however it ends.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from log_tier.embedded.recovery.open_partition import RecoveryReport
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, SyncFailed
from log_tier.embedded.storage.documents import read_document, write_document
from log_tier.embedded.storage.refusal import refusal_of
from log_tier.embedded.storage.settings import Entropy
from log_tier.model.errors import ForeignFolder, LogDamaged
from log_tier.model.identifiers import Partition, PartitionId, TableId, table_id_from_bytes
from log_tier.model.log import Topic

__all__ = ["DataFolder", "read_identity"]

_FOLDER_KIND: Final = "duramen-log"
_TOPIC_KIND: Final = "duramen-topic"

# A folder that this process may not open, or that cannot be synced, is not one that a start of the log has made.
_NOT_OURS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS})


class DataFolder:
    """An owned log folder."""

    def __init__(
        self, disk: Disk, path: Path, *, identity: TableId, random_bytes: Entropy, release: Callable[[], None]
    ) -> None:
        self._disk, self.path, self._random_bytes, self._release = disk, path, random_bytes, release
        self.identity = identity
        """This log's id, from its marker."""
        self._topics = path / names.TOPICS

    @classmethod
    def open(cls, disk: Disk, path: Path, *, random_bytes: Entropy) -> DataFolder:
        """Own a folder; make it a log's if it is new or empty.

        Raises `FolderInUse`, `ForeignFolder`, `UnknownFormat`, `FolderReadOnly`, `DiskFull`.
        """
        try:
            return cls._open(disk, path, random_bytes)
        except NotADirectoryError as error:
            raise ForeignFolder(f"{path} is no folder: choose another path") from error
        except FileExistsError as error:
            raise ForeignFolder(f"{path} is no folder: choose another path") from error
        except OSError as error:
            raise refusal_of(error, path) from error

    @classmethod
    def _open(cls, disk: Disk, path: Path, random_bytes: Entropy) -> DataFolder:
        disk.make_folder(path)
        own = {names.LOCK, names.MARKER, names.MARKER + names.PART, names.TOPICS}
        found = set(disk.list(path))
        if names.MARKER not in found and (found - own or (names.TOPICS in found and disk.list(path / names.TOPICS))):
            stranger = min(found - own, default=names.TOPICS)
            raise ForeignFolder(
                f"{path} holds {stranger!r} and no {names.MARKER}, so Duramen did not make it: "
                "choose an empty or a new folder"
            )
        release = disk.lock(path / names.LOCK)
        try:
            if disk.exists(path / names.MARKER):
                identity = read_identity(disk, path / names.MARKER)
            else:
                disk.make_folder(path / names.TOPICS)
                disk.sync_folder(path)
                # Before the marker: a later start that finds one does not look at the parents again.
                _sync_parents(disk, path)
                identity = table_id_from_bytes(random_bytes(16))
                write_document(disk, path / names.MARKER, _FOLDER_KIND, {"id": identity})
            return cls(disk, path, identity=identity, random_bytes=random_bytes, release=release)
        except BaseException:
            release()
            raise

    def close(self) -> None:
        """Give the folder back."""
        self._release()

    def partition_folder(self, partition: PartitionId) -> Path:
        """The folder of a partition's files."""
        return self._topics.joinpath(partition.table, names.partition_name(partition.partition))

    def topics(self, report: RecoveryReport, *, known: Iterable[Topic] = ()) -> list[Topic]:
        """All topics; what a crash left half made or half removed is removed. One small read for each that is not
        `known` already.
        """
        by_id = {topic.id: topic for topic in known}
        found: list[Topic] = []
        for name in self._disk.list(self._topics):
            if names.topic_leftover(name):
                self._remove(self._topics / name)
                report.notes.append(f"removed {name}: a topic that was being created or deleted when the log ended")
                continue
            known_one = by_id.get(TableId(name))
            found.append(self.topic_in(name) if known_one is None else known_one)
        return found

    def topic_in(self, name: str) -> Topic:
        """The topic in the folder of that name, as its own file says.

        Raises `ForeignFolder` where Duramen did not make it, `LogDamaged`, `UnknownFormat`, `OSError`.
        """
        topic = names.topic_name(name)
        if topic is None:
            raise ForeignFolder(f"{self._topics / name} is no topic: move it away; Duramen did not make it")
        path = self._topics.joinpath(name, names.TOPIC_FILE)
        found = read_document(self._disk, path, _TOPIC_KIND, _topic_of)
        if found.id != topic:
            message = f"{path} is of topic {found.id}, and lies in {topic}; restore it from a copy"
            raise LogDamaged(message, file=str(path))
        return found

    def create(self, name: str, partitions: int) -> Topic:
        """Make a topic's folders; it is there after the rename, and not at all before. Raises `OSError`."""
        topic = Topic(table_id_from_bytes(self._random_bytes(16)), name, partitions)
        building = names.new_topic(self._topics, topic.id)
        try:
            for number in range(partitions):
                self._disk.make_folder(building / names.partition_name(Partition(number)))
            write_document(
                self._disk,
                building / names.TOPIC_FILE,
                _TOPIC_KIND,
                {"id": topic.id, "name": name, "partitions": partitions},
            )
            self._disk.rename(building, self._topics / topic.id)
            self._disk.sync_folder(self._topics)
        except OSError:
            self.take_back(topic.id)
            raise
        return topic

    def take_back(self, topic: TableId) -> None:
        """Remove what there is of a topic that could not be made. What cannot be removed now goes at the next open."""
        building = names.new_topic(self._topics, topic)
        with suppress(OSError):
            if self._disk.exists(self._topics / topic):
                self._disk.rename(self._topics / topic, building)
            if self._disk.exists(building):
                self._remove(building)

    def delete(self, topic: TableId) -> None:
        """Give a topic up: it is gone after the rename, and its files with `sweep`. One sync.

        Raises `OSError`; then the topic is still there, or, after a failed sync, it is unknown whether it is.
        """
        here, gone = self._topics / topic, names.gone_topic(self._topics, topic)
        self._disk.rename(here, gone)
        try:
            self._disk.sync_folder(self._topics)
        except OSError as error:
            if not isinstance(error, SyncFailed):
                self._disk.rename(gone, here)
            raise

    def sweep(self, topic: TableId) -> None:
        """Remove the files of a topic that was given up. What cannot be removed now goes at the next open."""
        with suppress(OSError):
            self._remove(names.gone_topic(self._topics, topic))

    def _remove(self, folder: Path) -> None:
        """Remove a topic's folder: two levels, no more."""
        for name in self._disk.list(folder):
            inner = folder / name
            if name.isdigit():
                for file in self._disk.list(inner):
                    self._disk.unlink(inner / file)
                self._disk.remove_folder(inner)
            else:
                self._disk.unlink(inner)
        self._disk.remove_folder(folder)


def read_identity(disk: Disk, marker: Path) -> TableId:
    """The id of the log whose marker this is. Raises as `read_document` does."""
    return read_document(disk, marker, _FOLDER_KIND, lambda fields: TableId(str(fields["id"])))


def _sync_parents(disk: Disk, path: Path) -> None:
    """Bring the names of a folder and of its parents to stable storage: any of them may be new, made by this start or
    by one that ended early. One sync each. Raises `OSError`.
    """
    for folder in path.parents:
        try:
            disk.sync_folder(folder)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise


def _topic_of(fields: Mapping[str, Any]) -> Topic:
    return Topic(TableId(str(fields["id"])), str(fields["name"]), int(fields["partitions"]))
