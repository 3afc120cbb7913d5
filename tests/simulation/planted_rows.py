"""Bugs to plant in tables of rows: where they are folded, opened again, written to, and numbered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from log_tier.catalog import catalog_fold
from log_tier.rows.definitions.numbering import number_schemas
from router.data import local_data
from router.data.freshness import Freshness
from router.endpoints.grpc.kv import finds
from router.routing import writes
from serving_tier.fold import defined, fold, grouped
from serving_tier.fold.stretch import STRETCH_MIN
from serving_tier.index.lmdb.index_file import IndexFile
from serving_tier.jobs import altering
from serving_tier.replica.version_folders import ReplicaFolder
from simulation.planted import Patches

__all__ = ["PLANTED_IN_ROWS", "ROWS_IN_DATABASE", "SCHEMA_BUGS"]


def _fold_takes_misfits() -> Patches:
    return [(grouped, "fits", lambda judge, operation, key, value: True)]


def _large_groups_are_taken_unjudged() -> Patches:
    judged = grouped.fold_group

    def taken(batch: Any, attributes: Any, begin: int, end: int, view: Any, effects: Any) -> None:
        known = effects.definition
        if end - begin >= STRETCH_MIN:
            effects.definition = None
        try:
            judged(batch, attributes, begin, end, view, effects)
        finally:
            effects.definition = known

    return [(fold, "fold_group", taken)]


def _definition_lost_when_opened_again() -> Patches:
    rest, open_again = ReplicaFolder.at_rest, ReplicaFolder.open

    def forget(index: Any) -> Any:
        if isinstance(index, IndexFile) and index.applied >= 0:
            index.definition = None
        return index

    return [
        (ReplicaFolder, "at_rest", lambda self: forget(rest(self))),
        (ReplicaFolder, "open", lambda self, *where: forget(open_again(self, *where))),
    ]


def _nobody_asks() -> Patches:
    async def unasked(parts: Sequence[Any], cluster: Any, plain: Any) -> Sequence[Any]:
        return parts

    return [(module, "asked_where_misfit", unasked) for module in (local_data, writes)]


def _each_table_counts_for_itself() -> Patches:
    return [(catalog_fold, "number_schemas", lambda definition, known: number_schemas(definition, {}))]


def _finds_wait_for_no_token() -> Patches:
    return [(finds, "freshness_of", lambda table, token, request: Freshness("session", {}, 0))]


def _schemas_change_nothing() -> Patches:
    behind = defined.defined_behind

    def passed_over(text: str, known: Any) -> Any:
        later = behind(text, known)
        return known if later is not None and len(later.schemas) > len(known.schemas) else later

    return [(fold, "defined_behind", passed_over)]


def _a_partition_gets_no_barrier() -> Patches:
    """The last one's barrier brings nothing."""
    batch = altering._batch

    def made(barrier: Any, table: Any, place: Any, task: int) -> bytes:
        is_last = place.partition == table.partitions - 1
        return batch(barrier._replace(definition="") if is_last else barrier, table, place, task)

    return [(altering, "_batch", made)]


SCHEMA_BUGS: Final[dict[str, Callable[[], Patches]]] = {
    "a replica passes over the barrier of a schema": _schemas_change_nothing,
    "a partition gets no barrier of a schema": _a_partition_gets_no_barrier,
}
"""They show where a table gets another schema."""

PLANTED_IN_ROWS: Final[dict[str, Callable[[], Patches]]] = {
    "the fold takes what does not fit": _fold_takes_misfits,
    "a replica that is opened again takes anything": _definition_lost_when_opened_again,
    "a batch with a misfit does not ask for its outcomes": _nobody_asks,
    "each table gives numbers to its schemas by itself": _each_table_counts_for_itself,
    "a find by KV does not wait for its token": _finds_wait_for_no_token,
    **SCHEMA_BUGS,
}

ROWS_IN_DATABASE: Final[dict[str, Callable[[], Patches]]] = {
    "the fold takes what does not fit": _fold_takes_misfits,
    "a large group of rows is taken without a look": _large_groups_are_taken_unjudged,
}
"""What one process shows by itself."""
