"""What can go wrong with the machine under a log: its power, its process, its disk, its threads. Where a disk lies, its
wounds say which bytes are wrong: pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

__all__ = ["DAMAGES", "FAULTS", "LOST_END", "FaultKind", "MachineFault", "Wound", "WoundKind", "left_after_write"]

FaultKind = Literal["power", "kill", "sync", "write", "full", "slow", "flip", "misdirect", "zeros"]

FAULTS: Final[dict[FaultKind, str]] = {
    "power": "the machine loses power: what was not synced is lost, sector by sector",
    "kill": "the process is killed: the kernel keeps what was written",
    "sync": "a sync fails",
    "write": "a write, a rename or another change of the disk fails",
    "full": "the disk is full for a while",
    "slow": "threads are slow to wake for a while",
}

DAMAGES: Final[dict[FaultKind, str]] = {
    "flip": "a bit flips in a file, where nothing is being written",
    "misdirect": "a write is confirmed, and its bytes go to another place, or to none",
}
"""A disk that lies: what was acknowledged may be unreadable afterwards, and must not be wrong."""

LOST_END: Final[FaultKind] = "zeros"
"""The power fails, and where the newest writes to the journal were, several of them, the disk has zeros."""


@dataclass(frozen=True)
class MachineFault:
    """Something goes wrong: at the disk's `steps`th change after `at_s`, or a second later."""

    at_s: float
    kind: FaultKind
    steps: int
    seconds: float = 0.0
    seed: int = 0


WoundKind = Literal["flip", "missed", "victim", "zeros"]
"""A bit has flipped; a write was confirmed and did not come here; another place's write came here; zeros are here."""


@dataclass
class Wound:
    """Bytes of a file that are not what they should be."""

    position: int
    good: bytes
    """What should be there."""
    kind: WoundKind
    stable: bool = False
    """Whether the bytes that should be there had been synced: then a loss of power does not excuse them."""

    @property
    def end(self) -> int:
        """The position behind its last byte."""
        return self.position + len(self.good)

    def overlaps(self, start: int, end: int) -> bool:
        """Is one of its bytes in `start` to `end`, which does not count?"""
        return self.position < end and start < self.end


def left_after_write(wounds: Iterable[Wound], start: int, end: float) -> list[Wound]:
    """What is left of wounds when `start` to `end` is written anew, or cut off."""
    left: list[Wound] = []
    for wound in wounds:
        if wound.position < start:
            left.append(replace(wound, good=wound.good[: start - wound.position]))
        if wound.end > end:
            behind = max(wound.position, int(end))
            left.append(replace(wound, position=behind, good=wound.good[behind - wound.position :]))
    return left
