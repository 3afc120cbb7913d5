"""Bugs to plant where rows are patched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from log_tier.model.batch import Batch
from log_tier.model.record import OPERATION_MASK, Operation
from serving_tier.fold import fold, grouped
from serving_tier.index import memory_index
from serving_tier.index.lmdb import lmdb_index
from simulation.planted import Patches

__all__ = ["PLANTED_IN_PATCHES"]


def _as_the_index_has_it() -> Patches:
    """What earlier records of the same fold have changed is not looked at."""
    stage = grouped._stage

    def stale(record: Any, view: Any, effects: Any, staged: Any, hints: Any, *rest: Any) -> Any:
        if record.operation is not Operation.PATCH:
            return stage(record, view, effects, staged, hints, *rest)
        entries, effects.entries = effects.entries, {}
        mine: dict[bytes, bytes | None] = {}
        try:
            refusal = stage(record, view, effects, mine, hints, *rest)
        finally:
            effects.entries = entries
        staged.update(mine)
        return refusal

    return [(grouped, "_stage", stale)]


def _again() -> Patches:
    """The producers of batches with patches are not looked at."""
    fold_all = fold.fold

    def forgetful(batches: Iterable[Batch], *where: Any, **how: Any) -> Any:
        return fold_all(map(_nobodys, batches), *where, **how)

    return [(lmdb_index, "fold", forgetful), (memory_index, "fold", forgetful)]


def _nobodys(batch: Batch) -> Batch:
    attributes = batch.columns.attributes or ()
    if not any(each & OPERATION_MASK == Operation.PATCH for each in attributes):
        return batch
    return Batch(batch.header._replace(producer_id=0), batch.columns)


PLANTED_IN_PATCHES: Final[dict[str, Callable[[], Patches]]] = {
    "a patch is applied to the wrong version": _as_the_index_has_it,
    "a patch counts twice where its batch is repeated": _again,
}
