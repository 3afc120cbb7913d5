"""A checkpoint of a partition that gave offsets up: its bytes are frozen, and other partitions' have none of that."""

from __future__ import annotations

from pathlib import Path

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.model.identifiers import Offset, parse_ranges

FOLDER = Path("/data/log/topics/AAECAwQFBgcICQoLDA0ODw/3")
PATH = FOLDER / "checkpoint.json"

GIVEN_UP = (
    b'{"format": "duramen-log-checkpoint", "version": 1, "of": "AAECAwQFBgcICQoLDA0ODw/3", "earliest": 0, "end": 41, '
    b'"newest_segment": 18, "clean_bytes": 2048, "reserved_bytes": 0, "compacted": 0, "given_up": "5-7 12", '
    b'"mended": 40, "check": "0adc2a82"}\n'
)


def written(checkpoint: Checkpoint) -> bytes:
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    checkpoint.write(disk, PATH)
    assert Checkpoint.read(disk, PATH) == checkpoint
    return bytes(disk.files[PATH].content)


def test_what_was_given_up_is_remembered() -> None:
    checkpoint = Checkpoint(
        end=Offset(41),
        newest_segment=Offset(18),
        clean_bytes=2048,
        given_up=parse_ranges("5-7 12"),
        mended=Offset(40),
    )
    assert written(checkpoint) == GIVEN_UP
    assert not checkpoint.is_half_mended
    assert checkpoint.history == (0, 5, 40)


def test_other_partitions_say_nothing_of_it() -> None:
    assert b"given_up" not in written(Checkpoint(end=Offset(3)))
    assert Checkpoint(end=Offset(3)).history == (0, -1, -1)


def test_a_repair_that_did_not_end() -> None:
    half = Checkpoint(given_up=parse_ranges("4"))
    assert b'"given_up": "4", "mended": -1' in written(half)
    assert half.is_half_mended
