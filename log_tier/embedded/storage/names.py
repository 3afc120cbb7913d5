"""Every name on the disk is built and parsed here and nowhere else.

    LOG/                                 one embedded log
        duramen.json                     what this folder is, which format version, its id
        lock                             flocked while the log is open; holds the owner's pid
        journal.0, journal.1             the commit journal, used in turn
        journal.json                     which generation of it is in use, and whether the log was closed cleanly
        summary.json                     what a clean close of many partitions left; gone while the log is open
        topics/
            <topic id>/                  one topic
                topic.json               id, name, partitions
                <partition>/             0, 1, 2, …
                    00000000000000000042.log        a segment, named by the first offset it may hold
                    00000000000000000042.index      its sparse index: a cache
                    checkpoint.json                 what is known to be there
            new-<topic id>/              a topic half created: removed at open
            gone-<topic id>/             a topic half deleted: removed at open
        repair-<n>/                      what a repair replaced, by the same names: for an operator to remove

A name that ends in `.part` is a file half written; it becomes real by a rename, and is removed at open.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from log_tier.model.batch_header import Place, place_of
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId

__all__ = [
    "CHECKPOINT",
    "JOURNALS",
    "JOURNAL_WITNESS",
    "LOCK",
    "MARKER",
    "PART",
    "SUMMARY",
    "TOPICS",
    "TOPIC_FILE",
    "folder_place",
    "gone_topic",
    "index_name",
    "is_repair_folder",
    "new_topic",
    "partition_name",
    "repair_folder",
    "segment_base",
    "segment_name",
    "topic_leftover",
    "topic_name",
]

MARKER: Final = "duramen.json"
LOCK: Final = "lock"
JOURNALS: Final = ("journal.0", "journal.1")
JOURNAL_WITNESS: Final = "journal.json"
SUMMARY: Final = "summary.json"
TOPICS: Final = "topics"
TOPIC_FILE: Final = "topic.json"
CHECKPOINT: Final = "checkpoint.json"
PART: Final = ".part"

# Twenty digits hold every unsigned 64-bit number, so names sort as their offsets do.
_SEGMENT = re.compile(r"(\d{20})\.log")
_TOPIC = re.compile(r"[A-Za-z0-9_-]{22}")
_LEFTOVER = re.compile(r"(?:new|gone)-[A-Za-z0-9_-]{22}")
_REPAIR = re.compile(r"repair-\d+")


def segment_name(base: Offset) -> str:
    """The file of the segment that begins at `base`."""
    return f"{base:020d}.log"


def index_name(base: Offset) -> str:
    """The sparse index of the segment that begins at `base`."""
    return f"{base:020d}.index"


def segment_base(name: str) -> Offset | None:
    """The base offset of a segment's file, or None for any other name."""
    found = _SEGMENT.fullmatch(name)
    return Offset(int(found[1])) if found else None


def folder_place(folder: Path) -> Place | None:
    """The place of the batches in a partition's folder; None if its name and its parent's are not a partition's."""
    topic = topic_name(folder.parent.name)
    if topic is None or not folder.name.isdecimal():
        return None
    return place_of(PartitionId(topic, Partition(int(folder.name))))


def partition_name(partition: Partition) -> str:
    """The folder of a partition inside its topic's."""
    return str(partition)


def topic_name(name: str) -> TableId | None:
    """The topic id that a folder's name is, or None for any other name."""
    return TableId(name) if _TOPIC.fullmatch(name) else None


def new_topic(topics: Path, topic: TableId) -> Path:
    """The folder in which a topic is built before it appears."""
    return topics / f"new-{topic}"


def gone_topic(topics: Path, topic: TableId) -> Path:
    """The folder to which a deleted topic is renamed before its files are removed."""
    return topics / f"gone-{topic}"


def topic_leftover(name: str) -> bool:
    """Whether a crash left this folder behind while a topic was created or deleted."""
    return _LEFTOVER.fullmatch(name) is not None


def repair_folder(number: int) -> str:
    """The folder in a log's to which a repair moves what it replaced."""
    return f"repair-{number}"


def is_repair_folder(name: str) -> bool:
    """Does a folder hold what a repair replaced?"""
    return _REPAIR.fullmatch(name) is not None
