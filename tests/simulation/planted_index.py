"""Bugs to plant that only an index shows which was in use when its machine stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from serving_tier.index.lmdb import folder
from simulation.planted import Patches

__all__ = ["PLANTED_IN_INDEX"]


def _boot_is_not_compared() -> Patches:
    inner: Any = vars(folder)["_check_marker"]

    def believed(marker: Any, path: Any, *, partition: Any, boot: str) -> None:
        inner(marker, path, partition=partition, boot=marker.boot_id)

    return [(folder, "_check_marker", believed)]


PLANTED_IN_INDEX: Final[dict[str, Callable[[], Patches]]] = {
    "an index that was in use at a loss of power is believed": _boot_is_not_compared,
}
