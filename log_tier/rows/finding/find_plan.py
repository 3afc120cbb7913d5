"""Which index finds rows, and where in it they lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple, NoReturn

from log_tier.model.errors import IndexBuilding, InvalidRequest
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.found_range import FieldCondition, FindPlan

__all__ = ["FindWay", "find_plan", "find_way", "order_of"]

_BEHIND = b"\xff"


class FindWay(NamedTuple):
    """What the plans of all finds have in common that name the same fields, with a value or a range for each."""

    index_name: str
    index_number: int
    value_fields: tuple[str, ...]
    """The first fields of the index, as many as are given a value."""
    range_field: str
    """The field behind them, if it is given a range; else empty."""
    reverse: bool
    key_fields: tuple[str, ...] = ()
    """The first fields of the table's key, as many as are given a value."""

    def plan(self, conditions: Sequence[FieldCondition]) -> FindPlan:
        """The plan for conditions on those fields. Some 2 µs."""
        by_path = {each.path: each for each in conditions}
        key_prefix = b"".join([by_path[each].start for each in self.key_fields]) if self.key_fields else b""
        prefix = b"".join([by_path.pop(each).start for each in self.value_fields])
        start, end = prefix, prefix + _BEHIND
        if self.range_field:
            between = by_path.pop(self.range_field)
            start, end = prefix + between.start, prefix + between.end
        rest = tuple(by_path.values())
        last = None if end == _BEHIND else end
        return FindPlan(self.index_name, start, last, self.reverse, rest, self.index_number, key_prefix)


class _Candidate(NamedTuple):
    index_name: str
    fields: Sequence[str]
    number: int = 0


def order_of(order: str | Sequence[str] | None) -> tuple[tuple[str, ...], bool]:
    """The fields of an order and whether it goes down: `"-time_hour"`, `("origin", "time_hour")`.

    Raises `InvalidRequest` where some of them go up and others down.
    """
    given = () if order is None else (order,) if isinstance(order, str) else order
    if not isinstance(given, Sequence) or not all(isinstance(each, str) and each.removeprefix("-") for each in given):
        raise InvalidRequest(f"order= names fields, with - in front to go down, not {order!r}")
    down = {each.startswith("-") for each in given}
    if len(down) > 1:
        raise InvalidRequest(f"order={order!r}: all of its fields go up, or all go down, as an index is read")
    return tuple(each.removeprefix("-") for each in given), down == {True}


def find_plan(
    definition: TableDefinition, conditions: Sequence[FieldCondition], order: str | Sequence[str] | None = None
) -> FindPlan:
    """The plan of a find. Raises as `find_way`."""
    return find_way(definition, conditions, order).plan(conditions)


def find_way(
    definition: TableDefinition, conditions: Sequence[FieldCondition], order: str | Sequence[str] | None = None
) -> FindWay:
    """The way through the fewest entries, as far as the conditions tell: the most fields with a value, then a range. Of
    two that are alike the key comes first, then the index that was made earlier.

    Raises `InvalidRequest`, which says what index would serve, where none begins with a field that is asked for, and
    where none has the order; `IndexBuilding` where one that is being built would serve.
    """
    wanted, down = order_of(order)
    by_path = {each.path: each for each in conditions}
    best: tuple[tuple[int, int], _Candidate, int] | None = None
    for candidate in _candidates(definition):
        values = 0
        while values < len(candidate.fields) and _is_value(by_path.get(candidate.fields[values])):
            values += 1
        behind = candidate.fields[values] if values < len(candidate.fields) else ""
        ranged = int(behind in by_path)
        left = [each for each in wanted if each not in candidate.fields[:values]]
        if list(candidate.fields[values : values + len(left)]) != left:
            continue
        if not (values + ranged or left or (not conditions and not wanted)):
            continue
        score = (2 * values + ranged, values)
        if best is None or score > best[0]:
            best = score, candidate, values
    if best is None:
        if definition.history.building:
            _refuse_building(definition, conditions, order)
        _refuse(definition, conditions, wanted)
    _, candidate, values = best
    behind = candidate.fields[values] if values < len(candidate.fields) else ""
    return FindWay(
        candidate.index_name,
        candidate.number,
        tuple(candidate.fields[:values]),
        behind if behind in by_path else "",
        down,
        tuple(takewhile(lambda field: _is_value(by_path.get(field)), _key_fields(definition))),
    )


def _candidates(definition: TableDefinition) -> Iterator[_Candidate]:
    yield _Candidate("", _key_fields(definition))
    for each in definition.indexes:
        if each.number not in definition.history.building:
            yield _Candidate(each.name, each.fields, each.number)


def _key_fields(definition: TableDefinition) -> list[str]:
    return [each.name for each in definition.key] if isinstance(definition.key, tuple) else []


def _is_value(condition: FieldCondition | None) -> bool:
    return condition is not None and condition.is_value


def _refuse_building(
    definition: TableDefinition, conditions: Sequence[FieldCondition], order: str | Sequence[str] | None
) -> None:
    """Raise `IndexBuilding` where an index will serve when it is in service."""
    later = definition
    for number in definition.history.building:
        later = later.with_index_served(number)
    try:
        name = find_plan(later, conditions, order).index_name
    except InvalidRequest:
        return  # it says what would serve
    raise IndexBuilding(
        f"the index {name} would serve this, and is being built: ask again when it is in service, or scan the table",
        index=name,
    )


def _refuse(definition: TableDefinition, conditions: Sequence[FieldCondition], order: Sequence[str]) -> NoReturn:
    values = [each.path for each in conditions if each.is_value]
    ranges = [each.path for each in conditions if not each.is_value]
    fields = [*values, *(each for each in order if each not in values)]
    if not order:
        fields += ranges[:1]
    there = ", ".join(f"{each.name} ({', '.join(each.fields)})" for each in definition.indexes) or "none"
    raise InvalidRequest(
        f"no index serves this: one of the fields ({', '.join(fields)}) would. The table's key is "
        f"{_key_words(definition)}, its indexes are {there}; `scan` goes through all rows"
    )


def _key_words(definition: TableDefinition) -> str:
    return definition.key if isinstance(definition.key, str) else f"({', '.join(each.name for each in definition.key)})"
