"""Bugs to plant that only a disk shows which lies: what is checked of a batch that comes from a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from log_tier.embedded.commit import journal_format
from log_tier.embedded.recovery import segment_end
from log_tier.embedded.segments import segment
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.embedded.verification import verify
from log_tier.embedded.verification.segments import check_segment
from log_tier.model.batch_header import BatchHeader, check_read_at
from simulation.planted import Patches

__all__ = ["PLANTED_IN_DAMAGE", "ZEROS_ARE_THE_END"]

ZEROS_ARE_THE_END: Final = "zeros at the end of the journal count as its end"


def _body_is_not_checked() -> Patches:
    return [(segment, "check_read_at", lambda data, at, header, place=None: None)]


def _place_is_not_compared() -> Patches:
    def anywhere(data: bytes, at: int, header: BatchHeader, place: Any = None) -> None:
        check_read_at(data, at, header)

    return [(segment, "check_read_at", anywhere)]


def _holes_are_believed() -> Patches:
    return [(Checkpoint, "may_lack", lambda self, offset: True)]


def _no_proof_against_a_tear() -> Patches:
    return [(segment_end, "find_proof", lambda *args, **kwargs: None)]


def _first_damage_alone() -> Patches:
    inner: Any = check_segment

    def one(*args: Any, **how: Any) -> Any:
        return (finding for finding in inner(*args, **how) if finding.file.suffix != ".log")

    return [(verify, "check_segment", one)]


def _zeros_are_the_end() -> Patches:
    return [(journal_format, "lost_at", lambda data, start, end: None)]


PLANTED_IN_DAMAGE: Final[dict[str, Callable[[], Patches]]] = {
    "the bytes of a batch are not checked when it is read": _body_is_not_checked,
    "a batch of another partition is believed": _place_is_not_compared,
    "a hole that no compaction made is believed": _holes_are_believed,
    "damage is cut as if it were a tear": _no_proof_against_a_tear,
    "a verification reads what a start reads": _first_damage_alone,
    ZEROS_ARE_THE_END: _zeros_are_the_end,
}
