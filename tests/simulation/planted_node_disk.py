"""Bugs to plant that only a failing disk of a node shows: an error passed over, and one that is never got over."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from duramen.testing.machine.node_disk.failing_calls import FailingCalls
from serving_tier.replica import apply
from simulation.planted import Patches

__all__ = ["PLANTED_IN_NODE_DISK"]


def _rename_swallowed() -> Patches:
    inner = FailingCalls.rename

    def rename(self: FailingCalls, old: Path, new: Path) -> None:
        with suppress(OSError):
            inner(self, old, new)

    return [(FailingCalls, "rename", rename)]


def _full_once_is_full_for_ever() -> Patches:
    return [(apply, "_NO_ROOM_PAUSE_S", 1e6)]


PLANTED_IN_NODE_DISK: Final[dict[str, Callable[[], Patches]]] = {
    "a rename that the disk of a node refused counts as done": _rename_swallowed,
    "a replica whose disk was full does not go on when there is room": _full_once_is_full_for_ever,
}
