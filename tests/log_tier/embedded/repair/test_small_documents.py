"""What a repair makes of small files that are missing or damaged, from the names of others and from a copy."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.log.engine_steps import HOME, overwrite
from kit.log.stopped_logs import LIVES, OPTIONS, damaged_disk

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded.repair.copy_log import CopyLog
from log_tier.embedded.repair.documents import find_checkpoint, mended_marker
from log_tier.embedded.repair.journal_files import look_at_journal, mended_journal
from log_tier.embedded.storage import names
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset

FOLDER = Path("/data/0")
KILLED, CLOSED = LIVES[False, False], LIVES[True, True]


def partition_of(*bases: int, checkpoint: bytes | None) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    for base in bases:
        overwrite(disk, FOLDER / names.segment_name(Offset(base)), b"")
    if checkpoint is not None:
        overwrite(disk, FOLDER / names.CHECKPOINT, checkpoint)
    return disk


@pytest.mark.parametrize(("checkpoint", "earliest"), [(b"?", 5), (None, 0)], ids=["damaged", "missing"])
def test_without_a_copy_the_files_names_bound_a_partition(checkpoint: bytes | None, earliest: int) -> None:
    """One that is damaged was written, by a trim perhaps; one that is missing says nothing of a trim."""
    found = find_checkpoint(partition_of(5, 9, checkpoint=checkpoint), FOLDER, None)
    made = found.checkpoint
    assert (made.earliest, made.newest_segment, made.compacted) == (earliest, 9, 9)
    assert found.why


def test_a_partition_that_was_never_written_needs_nothing() -> None:
    assert not find_checkpoint(partition_of(checkpoint=None), FOLDER, None).why


def test_a_partition_without_files_has_no_newest_one() -> None:
    made = find_checkpoint(partition_of(checkpoint=b"?"), FOLDER, None).checkpoint
    assert (made.earliest, made.newest_segment, made.compacted) == (0, NOTHING, 0)


def test_a_copys_checkpoint_is_used_as_far_as_it_is_true_of_the_files() -> None:
    theirs = Checkpoint(earliest=Offset(7), newest_segment=Offset(8), compacted=Offset(6))
    made = find_checkpoint(partition_of(5, 9, checkpoint=b"?"), FOLDER, theirs).checkpoint
    assert (made.earliest, made.newest_segment, made.compacted) == (5, 8, 9)


def opened_copy(disk: MemoryDisk) -> CopyLog:
    return CopyLog.open(disk, HOME, OPTIONS, hold=disk.lock)


@pytest.mark.parametrize(
    ("left", "is_known"),
    [
        (("topics", "journal"), True),
        (("topics",), True),
        (("journal",), True),
        ((), False),
    ],
    ids=str,
)
def test_a_lost_marker_is_taken_where_a_topic_or_a_journal_shows_whose_log_it_is(
    left: tuple[str, ...], is_known: bool
) -> None:
    copy = opened_copy(damaged_disk(KILLED))
    disk = MemoryDisk()
    disk.make_folder(HOME)
    if "topics" in left:
        disk.make_folder(HOME / names.TOPICS / KILLED.topic.id)
    for name in names.JOURNALS:
        overwrite(disk, HOME / name, KILLED.files[HOME / name] if "journal" in left else b"?" * 9000)
    if not is_known:
        with pytest.raises(InvalidRequest, match=r"nothing in .* shows that it is the log"):
            mended_marker(disk, HOME, copy)
        return
    marker = mended_marker(disk, HOME, copy)
    assert marker is not None
    assert marker.data == KILLED.files[HOME / names.MARKER]


def test_a_journal_that_lost_its_end_is_taken_from_a_copy_that_is_no_older() -> None:
    """All frames that can still be read here are in the copy: it is no older."""
    disk = damaged_disk(KILLED)
    for name in names.JOURNALS:
        inode = disk.files[HOME / name]
        inode.content[-2000:] = bytes(2000)
    copy = opened_copy(damaged_disk(KILLED))
    taken = mended_journal(disk, HOME, copy.identity, copy, is_behind=lambda: "")
    assert not isinstance(taken, str), taken
    assert {each.path: each.data for each in taken}.items() >= {
        (HOME / name, KILLED.files[HOME / name]) for name in names.JOURNALS
    }
    assert mended_journal(disk, HOME, copy.identity, copy, is_behind=lambda: "it ends before") == (
        "the copy is older: it ends before"
    )


def test_a_journal_is_not_taken_from_a_copy_that_was_closed() -> None:
    copy = opened_copy(damaged_disk(CLOSED))
    why = mended_journal(damaged_disk(CLOSED), HOME, copy.identity, copy, is_behind=lambda: "")
    assert isinstance(why, str)
    assert "closed cleanly" in why


@pytest.mark.parametrize("name", names.JOURNALS)
def test_a_journal_that_is_not_needed_and_cannot_be_read_is_named(name: str) -> None:
    disk = damaged_disk(CLOSED, HOME / name, b"?" * 9000)
    identity = opened_copy(damaged_disk(CLOSED)).identity
    state = look_at_journal(disk, HOME, identity)
    assert (state.is_clean, state.damage) == (True, None)
    assert any(str(HOME / name) in fault for fault in state.faults), state.faults
    assert not any("It may hold" in fault for fault in state.faults), "the log was closed: it holds nothing"
