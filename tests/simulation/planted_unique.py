"""Bugs to plant in unique indexes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from log_tier.rows.judge import RowJudge
from router.data import local_data, misfits
from router.routing import writes
from serving_tier.fold.misfits import UniqueRows
from simulation.planted import Patches

__all__ = ["PLANTED_IN_UNIQUE"]


def _as_the_index_has_it() -> Patches:
    """What earlier records of the same fold have taken is not looked at: it depends on where a chunk ends."""

    def of_the_index(self: Any, value: bytes, but: bytes) -> bytes | None:
        return next((key for key in self._view.with_value(value) if key != but and self._has(key, value)), None)

    return [(UniqueRows, "_holder", of_the_index)]


def _acknowledged_before_the_verdict() -> Patches:
    """A write to a table with a unique index is acknowledged as any other one that fits."""
    asked = misfits.asked_where_misfit

    async def unasked(parts: Sequence[Any], cluster: Any, plain: Any) -> Sequence[Any]:
        def fits(part: Any) -> bool:
            table = cluster.tables.get(part.partition.table)
            judge: RowJudge | None = None if table is None or table.definition is None else table.definition.judge
            return judge is not None and judge.unique is not None

        return [part if fits(part) else (await asked([part], cluster, plain))[0] for part in parts]

    return [(local_data, "asked_where_misfit", unasked), (writes, "asked_where_misfit", unasked)]


PLANTED_IN_UNIQUE: Final[dict[str, Callable[[], Patches]]] = {
    "a unique index does not see what the same fold has taken": _as_the_index_has_it,
    "a row is acknowledged before its unique index is judged": _acknowledged_before_the_verdict,
}
