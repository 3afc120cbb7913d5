"""Bugs to plant in the versions of a table: where an empty one begins, and what a standby takes over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from log_tier.model.identifiers import NOTHING, Offset
from serving_tier.replica import standby
from serving_tier.versions import empty
from simulation.planted import Patches

__all__ = ["PLANTED_IN_VERSIONS"]


def _empty_from_the_first_record() -> Patches:
    return [(empty, "empty_offsets", lambda url, partitions: [NOTHING] * partitions)]


def _empty_from_too_late() -> Patches:
    inner = empty.empty_offsets
    return [(empty, "empty_offsets", lambda url, partitions: [Offset(each + 2) for each in inner(url, partitions)])]


def _standby_judges_by_itself() -> Patches:
    def nothing(judgements: Any) -> frozenset[Offset]:
        return frozenset()

    return [(standby, "changed_nothing", nothing)]


PLANTED_IN_VERSIONS: Final[dict[str, Callable[[], Patches]]] = {
    "an empty version begins at the first record of the log": _empty_from_the_first_record,
    "an empty version begins behind the place that its clearing names": _empty_from_too_late,
    "a standby applies what the live version rejected": _standby_judges_by_itself,
}
