"""Plans of finds that are alike: the index is chosen once, and each value then makes a range of its entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.conditions import ConditionFields
from log_tier.rows.finding.find_plan import FindWay, find_way, order_of, served_where
from log_tier.rows.finding.found_range import FindPlan

__all__ = ["FindPlanner"]

_WAYS_MAX: Final = 256
"""A program has as many as it has calls of `find`. One that makes up its conditions begins anew with the next one."""


class FindPlanner:
    """Plans the finds of tables with one definition, for programs that can sort what they find. Safe from any thread.

    Invariant: its plans are those of `find_plan`.
    """

    def __init__(self, definition: TableDefinition) -> None:
        self._definition = definition
        self._fields = ConditionFields(definition)
        self._ways: dict[object, FindWay] = {}
        """By the fields, whether each is given a value or a range, the order, and which of the indexes that have
        conditions have all rows that are asked for.
        """
        self._has_conditions = any(each.where for each in definition.indexes)

    def plan(self, given: Mapping[str, Any], order: str | Sequence[str] | None = None) -> FindPlan:
        """The plan for conditions as a caller gives them. Some 5 µs for one condition. Raises as `conditions_of` and
        `find_plan`.
        """
        conditions = self._fields.conditions(given)
        asked = (
            tuple([(each.path, each.is_value) for each in conditions]),
            None if order is None else order_of(order),
            served_where(self._definition, conditions) if self._has_conditions else (),
        )
        way = self._ways.get(asked)
        if way is None:
            way = find_way(self._definition, conditions, order, sorts=True)
            if len(self._ways) >= _WAYS_MAX:
                self._ways.clear()
            self._ways[asked] = way
        return way.plan(conditions)
