"""What a partition is known to hold: a lower bound, so that a loss is not taken for an end.

Without it a segment that was removed at either end of a partition would leave no trace, and neither would a file that
was cut short. It is written when a segment is begun, when its file has grown, before it is cut to its batches, and
before old segments are removed. It never has to be taken back: what it says stays true when the log goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from log_tier.embedded.storage.disk import Disk
from log_tier.embedded.storage.documents import Field, read_document, write_document
from log_tier.model.errors import LogDamaged
from log_tier.model.identifiers import NOTHING, Offset, OffsetRange, parse_ranges, ranges_text

__all__ = ["Checkpoint"]

_KIND: Final = "duramen-log-checkpoint"
_START: Final = Offset(0)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of one partition's `checkpoint.json`."""

    earliest: Offset = _START
    """Everything below it was trimmed on purpose; older files that are still there are removed at open."""
    end: Offset = _START
    """Every offset from `earliest` up to here was on stable storage."""
    newest_segment: Offset = NOTHING
    """Base of a segment that was begun; -1: none yet."""
    clean_bytes: int = -1
    """The newest segment's size after a clean close; -1: the log was opened for writing since, or never closed."""
    reserved_bytes: int = 0
    """The newest segment's file is at least so long. It is written after the file has grown and before it shrinks, so
    a shorter file lost its end, also where it ends with a whole batch."""
    compacted: Offset = _START
    """Records below it may have been dropped: what is left gives the states from here on, and none of before. It is
    written before the first of them goes."""
    given_up: tuple[OffsetRange, ...] = ()
    """Acknowledged offsets that an operator gave up in a repair: empty shells occupy them. Rising, at most
    `RANGES_MAX`."""
    mended: Offset = NOTHING
    """With `given_up`: the record with which the last such repair ended; -1: that repair was interrupted."""

    @property
    def history(self) -> tuple[Offset, Offset, Offset]:
        """What `Bounds` says of what the partition has held: `compacted`, `given_up`, `mended`."""
        return self.compacted, self.given_up[0].first if self.given_up else NOTHING, self.mended

    @property
    def is_half_mended(self) -> bool:
        """Was a repair that gave offsets up interrupted?"""
        return bool(self.given_up) and self.mended < 0

    def may_lack(self, offset: Offset) -> bool:
        """May a compaction have dropped the record at `offset`? Elsewhere a hole is damage."""
        return offset < self.compacted

    def write(self, disk: Disk, path: Path) -> None:
        """Write the checkpoint, with the topic id and partition that its folder names. Two syncs."""
        fields: dict[str, Field] = {
            "of": _owner(path),
            "earliest": self.earliest,
            "end": self.end,
            "newest_segment": self.newest_segment,
            "clean_bytes": self.clean_bytes,
            "reserved_bytes": self.reserved_bytes,
            "compacted": self.compacted,
        }
        if self.given_up:
            fields |= {"given_up": ranges_text(self.given_up), "mended": self.mended}
        write_document(disk, path, _KIND, fields)

    @classmethod
    def read(cls, disk: Disk, path: Path) -> Checkpoint:
        """Read a checkpoint; without a file, an empty one. Raises as `read_document` does, and `LogDamaged` for another
        partition's checkpoint: what that partition trimmed was not trimmed here.
        """
        try:
            owner, checkpoint = read_document(disk, path, _KIND, cls._of)
        except FileNotFoundError:
            return cls()
        here = _owner(path)
        if owner not in ("", here):
            message = f"{path} is of partition {owner}, and lies in {here}; restore it from a copy"
            raise LogDamaged(message, file=str(path))
        return checkpoint

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> tuple[str, Checkpoint]:
        """The partition that a checkpoint names, and its content. One of an earlier version has neither its partition
        nor `reserved_bytes`, nor `compacted`: then anything may have been dropped. Only one of a partition that gave
        offsets up says which.
        """
        return str(fields.get("of", "")), cls(
            Offset(int(fields["earliest"])),
            Offset(int(fields["end"])),
            Offset(int(fields["newest_segment"])),
            int(fields["clean_bytes"]),
            int(fields.get("reserved_bytes", 0)),
            Offset(int(fields.get("compacted", fields["end"]))),
            parse_ranges(str(fields.get("given_up", ""))),
            Offset(int(fields.get("mended", NOTHING))),
        )


def _owner(path: Path) -> str:
    folder = path.parent
    return f"{folder.parent.name}/{folder.name}"
