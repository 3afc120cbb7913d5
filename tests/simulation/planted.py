"""Bugs to plant: each leaves out, or turns around, one thing that a promise of the log rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from log_tier.embedded.commit import committer, journal, journal_replay
from log_tier.embedded.commit.committer import Committer
from log_tier.embedded.commit.journal import Journal
from log_tier.embedded.commit.journal_replay import Witness
from log_tier.embedded.recovery.log_summary import LogSummary, TopicSummary
from log_tier.embedded.recovery.open_topics import TopicOpener
from log_tier.embedded.segments.growing_file import GrowingFile
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.model.errors import LogStopped
from log_tier.model.identifiers import Offset, PartitionId

__all__ = ["PLANTED", "Patches", "plant"]

Patches = list[tuple[Any, str, Any]]


def _segment_sync_left_out() -> Patches:
    def sync(self: GrowingFile) -> None:
        self.is_in_commit = self._unsynced = False

    return [(GrowingFile, "sync", sync)]


def _journal_sync_left_out() -> Patches:
    inner = Journal.write

    def write(self: Journal, *args: Any) -> None:
        file = self._files[self._generation & 1]
        real = type(file).fdatasync
        setattr(type(file), "fdatasync", lambda file: None)  # noqa: B010 - of whichever class it is
        try:
            inner(self, *args)
        finally:
            setattr(type(file), "fdatasync", real)  # noqa: B010

    return [(Journal, "write", write)]


def _folder_sync_left_out() -> Patches:
    inner = GrowingFile.begin

    def begin(self: GrowingFile, *args: Any) -> None:
        inner(self, *args)
        self._disk.sync_folder = lambda folder: None  # type: ignore[method-assign]

    return [(GrowingFile, "begin", begin)]


def _sync_tried_again() -> Patches:
    inner = GrowingFile.sync

    def sync(self: GrowingFile) -> None:
        try:
            inner(self)
        except LogStopped:
            self.is_in_commit = self._unsynced = False

    return [(GrowingFile, "sync", sync)]


def _under_way_is_refused() -> Patches:
    return [(committer, "write_unknown", lambda stopped: stopped)]


def _published_before_the_sync() -> Patches:
    def settle(self: PartitionLog, staged: Any) -> None:
        self._publish(staged)
        self._file.sync()

    return [(PartitionLog, "settle", settle)]


def _journal_overwritten_before_it_is_settled() -> Patches:
    return [(journal, "_sync_all", lambda disk, paths: None)]


def _replay_puts_nothing_back() -> Patches:
    return [(journal_replay, "_put_back", lambda entry, target, replayed: None)]


def _witness_always_clean() -> Patches:
    inner = Witness.write
    return [(Witness, "write", lambda self, disk, folder: inner(self._replace(clean=True), disk, folder))]


def _checkpoint_ahead_of_its_data() -> Patches:
    inner = Checkpoint.write

    def write(self: Checkpoint, disk: Any, path: Any) -> None:
        inner(replace(self, end=Offset(self.end + 1)), disk, path)

    return [(Checkpoint, "write", write)]


def _stop_forgotten() -> Patches:
    return [(Committer, "_stop", lambda self, error: error)]


def _summary_believed_after_a_crash() -> Patches:
    kept: dict[str, LogSummary] = {}
    take, begin = LogSummary.take, TopicOpener.open_journal

    def stale(disk: Any, folder: Any, log_id: Any) -> LogSummary:
        found = take(disk, folder, log_id)
        if found.topics:
            kept[log_id] = found
        return kept.get(log_id, found)

    def open_journal(self: TopicOpener) -> Any:
        summary = self._summary
        journal = begin(self)
        self._summary = summary
        return journal

    def unchanged(self: TopicSummary, disk: Any, topics: Any) -> set[PartitionId]:
        return {self.topic.partition(number) for number, each in enumerate(self.partitions) if each is not None}

    return [
        (LogSummary, "take", stale),
        (TopicOpener, "open_journal", open_journal),
        (TopicSummary, "unchanged", unchanged),
    ]


def _batch_of_another_partition() -> Patches:
    inner = committer._by_partition

    def by_partition(appends: Any) -> Any:
        found = inner(appends)
        if len(found) > 2:
            first, second = list(found)[:2]
            if len(found[first]) == len(found[second]):
                found[first], found[second] = found[second], found[first]
        return found

    return [(committer, "_by_partition", by_partition)]


PLANTED: Final[dict[str, Callable[[], Patches]]] = {
    "a segment's sync is left out": _segment_sync_left_out,
    "the journal's sync is left out": _journal_sync_left_out,
    "folders are not synced": _folder_sync_left_out,
    "a failed sync is passed over": _sync_tried_again,
    "what is under way when a sync fails is refused": _under_way_is_refused,
    "readers are shown what is not synced": _published_before_the_sync,
    "the journal is overwritten before it is settled": _journal_overwritten_before_it_is_settled,
    "a replay puts nothing back": _replay_puts_nothing_back,
    "the witness always says clean": _witness_always_clean,
    "a checkpoint is ahead of its data": _checkpoint_ahead_of_its_data,
    "the log goes on after a failed sync": _stop_forgotten,
    "the summary of a clean close is believed after a crash": _summary_believed_after_a_crash,
    "a batch is written to another partition": _batch_of_another_partition,
}


@contextmanager
def plant(bug: Callable[[], Patches]) -> Iterator[None]:
    """Have the bug in this process for a while."""
    before: Patches = []
    try:
        for owner, attribute, value in bug():
            before.append((owner, attribute, getattr(owner, attribute)))
            setattr(owner, attribute, value)
        yield
    finally:
        for owner, attribute, value in reversed(before):
            setattr(owner, attribute, value)
