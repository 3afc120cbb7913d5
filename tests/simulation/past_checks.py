"""What a replica must have of the past of a table that keeps a history: what a fold of its log has, and no gaps."""

from __future__ import annotations

import random
from typing import Any, Final

from log_tier.model.errors import HistoryGone
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.kept_history import KeptHistory
from serving_tier.index.index import PastPoint
from serving_tier.index.memory_index import MemoryIndex
from serving_tier.service.past_check import check_past
from simulation.book import Broken
from simulation.row_calls import RowWorld

__all__ = ["KEPT", "check_gaps", "compare_past"]

KEPT: Final = (KeptHistory(), KeptHistory(versions=3), KeptHistory(age_ms=2000))

_OFFSETS: Final = 40
_KEYS: Final = 10
_VERSIONS: Final = 1000


def compare_past(world: RowWorld, node: str, place: PartitionId, index: Any, folded: MemoryIndex) -> None:
    """At any offset each key has there what it has in a fold of the log, or is gone there too. Raises `Broken`."""
    if folded.definition is None or folded.definition.keeps is None:
        return
    chance = random.Random(f"past {place} {folded.applied}")
    keys = [key for key, _ in folded.scan(b"", None, limit=_KEYS).entries] + [b"none"]
    last = int(folded.applied)
    newest, earlier = range(max(-1, last - 10), last + 1), range(-1, last + 1)
    offsets = sorted({*newest, *chance.sample(earlier, min(_OFFSETS, len(earlier)))})
    for key in keys:
        for at in offsets:
            found, wanted = (_past(each, key, Offset(at)) for each in (index, folded))
            if found != wanted:
                raise Broken("past", f"{node} says that {key!r} of {place} was {found} at {at}, its log {wanted}")
    world.story.met["rows: past compared"] += 1


def _past(index: Any, key: bytes, at: Offset) -> object:
    try:
        return index.get_past([key], PastPoint(at)), index.versions(key, PastPoint(at), limit=_VERSIONS)
    except HistoryGone as gone:
        return gone.fields


def check_gaps(world: RowWorld, node: str, place: PartitionId, index: Any) -> None:
    """Every change from where the history begins on has its past entry. Raises `Broken`."""
    with index.pinned() as pinned:
        found = check_past(pinned)
    if found.wrong:
        lost = ", ".join(f"{each.key!r}" for each in found.named[:5])
        raise Broken("past", f"{node} has lost {found.wrong} history entries of {place}, of the keys {lost}")
    world.story.met["rows: past without gaps"] += 1
