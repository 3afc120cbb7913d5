"""What the option `where` says of rows: the range of keys that is read, the one partition where the keys lie, and what
is left to look at. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.condition_words import conditions_of_json
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.finding.find_plan import FindWay
from log_tier.rows.table_index import FieldCondition
from spark_bulk.source.model.key_ranges import KeyRange

__all__ = ["RowConditions", "row_conditions"]


class RowConditions(NamedTuple):
    """Conditions on fields, as a read uses them. The rows of `keys` that meet `rest` are those that meet all."""

    keys: KeyRange
    key_prefix: bytes
    """All keys of the range begin with these elements."""
    rest: tuple[FieldCondition, ...]


def row_conditions(given: Mapping[str, Any], definition: TableDefinition) -> RowConditions:
    """The conditions of an object of JSON: a value for a field, or a list of two, a range from the first (inclusive) to
    the second (exclusive), null for an open end.

    Raises `InvalidRequest`, which names the field, for one by which rows are not found, and a value of another type.
    """
    conditions = conditions_of(conditions_of_json(given, definition), definition)
    by_path = {each.path: each for each in conditions}
    key = [each.name for each in definition.key] if isinstance(definition.key, tuple) else []
    valued = tuple(takewhile(lambda name: name in by_path and by_path[name].is_value, key))
    behind = key[len(valued)] if len(valued) < len(key) else ""
    way = FindWay("", 0, valued, behind if behind in by_path else "", reverse=False, key_fields=valued)
    plan = way.plan(conditions)
    return RowConditions(KeyRange(plan.start, plan.end), plan.key_prefix, plan.rest)
