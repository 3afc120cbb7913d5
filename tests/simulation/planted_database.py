"""Bugs to plant above the log: in sessions, reads, verdicts and the fold of a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from duramen.client.model.session import Session
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.identifiers import NOTHING, Offset
from router.data import fresh_replicas
from serving_tier.fold.verdicts import Outcome, outcomes_between
from serving_tier.index.lmdb import bookkeeping
from serving_tier.replica import apply
from simulation.planted import Patches

__all__ = ["PLANTED_IN_DATABASE"]


def _session_forgets() -> Patches:
    return [(Session, "saw", lambda self, table, partition, offset: None)]


def _read_does_not_wait() -> Patches:
    return [(fresh_replicas, "needed_offset", lambda after, floor, lost=0, *, bounded=False: NOTHING)]


def _verdict_of_the_second_copy() -> Patches:
    def of_the_second(*args: Any, **kwargs: Any) -> dict[Offset, Outcome]:
        found = outcomes_between(*args, **kwargs)
        return {
            offset: outcome if outcome.duplicate_of is None else Outcome(duplicate_of=outcome.duplicate_of)
            for offset, outcome in found.items()
        }

    return [(bookkeeping, "outcomes_between", of_the_second)]


def _fold_of_another_partition() -> Patches:
    others: dict[Offset, tuple[Any, Sequence[Batch]]] = {}

    def decoded(data: bytes, index: Any) -> Sequence[Batch]:
        batches = [decode_batch(batch) for batch in split_batches(data)]
        place = batches[0].header.base_offset
        whose, other = others.get(place, (index.place, batches))
        others[place] = index.place, batches
        return batches if whose == index.place or len(other) != len(batches) else other

    return [(apply, "_decoded", decoded)]


PLANTED_IN_DATABASE: Final[dict[str, Callable[[], Patches]]] = {
    "a session forgets what it has seen": _session_forgets,
    "a read does not wait for what it must show": _read_does_not_wait,
    "a repeated write gets the verdict of its second copy": _verdict_of_the_second_copy,
    "the fold gets a batch of another partition": _fold_of_another_partition,
}
