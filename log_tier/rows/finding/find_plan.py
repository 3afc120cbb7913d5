"""Which index finds rows, and where in it they lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple, NoReturn

from log_tier.model.errors import IndexBuilding, InvalidRequest
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.condition_words import index_words, words_of_conditions
from log_tier.rows.finding.conditions import found_field
from log_tier.rows.finding.found_range import FindPlan
from log_tier.rows.table_index import OPEN_END, FieldCondition, IndexHistory, TableIndex

__all__ = ["FindWay", "find_plan", "find_way", "order_of", "served_where"]


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
    where: tuple[FieldCondition, ...] = ()
    """What all rows of the index meet."""
    sort: tuple[str, ...] = ()
    """See `FindPlan`; so is `sort_reverse`."""
    sort_reverse: bool = False

    def plan(self, conditions: Sequence[FieldCondition]) -> FindPlan:
        """The plan for conditions on those fields. Some 2 µs."""
        by_path = {each.path: each for each in conditions}
        key_prefix = b"".join([by_path[each].start for each in self.key_fields]) if self.key_fields else b""
        prefix = b"".join([by_path.pop(each).start for each in self.value_fields])
        start, end = prefix, prefix + OPEN_END
        if self.range_field:
            between = by_path.pop(self.range_field)
            start, end = prefix + between.start, prefix + between.end
        rest = tuple(each for each in by_path.values() if each not in self.where)
        last = None if end == OPEN_END else end
        sort, down = self.sort, self.sort_reverse
        return FindPlan(self.index_name, start, last, self.reverse, rest, self.index_number, key_prefix, sort, down)


class _Candidate(NamedTuple):
    index_name: str
    fields: Sequence[str]
    number: int = 0
    where: tuple[FieldCondition, ...] = ()


def served_where(
    definition: TableDefinition, conditions: Sequence[FieldCondition]
) -> tuple[tuple[int, tuple[FieldCondition, ...]], ...]:
    """Those indexes of some rows only that have each row which meets these conditions: their numbers, and which of
    their conditions are among these. All that `find_way` makes of values.
    """
    return tuple(
        [
            (each.number, tuple([condition for condition in each.where if condition in conditions]))
            for each in definition.indexes
            if each.where and not missing_of(each.where, conditions)
        ]
    )


def missing_of(where: Sequence[FieldCondition], conditions: Sequence[FieldCondition]) -> list[FieldCondition]:
    """Those of an index's conditions that rows may not meet which meet the others."""
    return [each for each in where if not any(other.path == each.path and other.implies(each) for other in conditions)]


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
    definition: TableDefinition,
    conditions: Sequence[FieldCondition],
    order: str | Sequence[str] | None = None,
    *,
    sorts: bool = False,
) -> FindPlan:
    """The plan of a find. Raises as `find_way`."""
    return find_way(definition, conditions, order, sorts=sorts).plan(conditions)


def find_way(
    definition: TableDefinition,
    conditions: Sequence[FieldCondition],
    order: str | Sequence[str] | None = None,
    *,
    sorts: bool = False,
) -> FindWay:
    """The way through the fewest entries, as far as the conditions tell: the most fields with a value, then a range;
    the own conditions of an index of some rows count too. Of two that are alike such an index comes first, then the
    key, then the index that was made earlier. An index of some rows serves where the conditions ask for no others.

    `sorts`: who asks can sort what it finds. Where none that serves has the order, one without it does.

    Raises `InvalidRequest`, which says what index would serve, where none begins with a field that is asked for, and
    where none has the order; `IndexBuilding` where one that is being built would serve.
    """
    wanted, down = order_of(order)
    way = _best_way(definition, conditions, wanted, down)
    if way is None and sorts and wanted and conditions:
        for path in wanted:
            found_field(path, definition)
        unsorted = _best_way(definition, conditions, (), down=False)
        way = None if unsorted is None else unsorted._replace(sort=wanted, sort_reverse=down)
    if way is None:
        if definition.history.building:
            _refuse_building(definition, conditions, order)
        _refuse(definition, conditions, wanted, down)
    return way


def _best_way(
    definition: TableDefinition, conditions: Sequence[FieldCondition], wanted: Sequence[str], down: bool
) -> FindWay | None:
    """The best one whose entries have the order; None: there is none."""
    by_path = {each.path: each for each in conditions}
    best: tuple[tuple[int, int, int], _Candidate, int] | None = None
    for candidate in _candidates(definition):
        if missing_of(candidate.where, conditions):
            continue
        values = 0
        while values < len(candidate.fields) and _is_value(by_path.get(candidate.fields[values])):
            values += 1
        behind = candidate.fields[values] if values < len(candidate.fields) else ""
        ranged = int(behind in by_path)
        left = [each for each in wanted if each not in candidate.fields[:values]]
        if list(candidate.fields[values : values + len(left)]) != left:
            continue
        if not (values + ranged or left or candidate.where or (not conditions and not wanted)):
            continue
        covered = [
            each
            for each in candidate.where
            if each in conditions and each.path not in candidate.fields[: values + ranged]
        ]
        score = (2 * values + ranged + sum(1 + each.is_value for each in covered), values, len(candidate.where))
        if best is None or score > best[0]:
            best = score, candidate, values
    if best is None:
        return None
    _, candidate, values = best
    behind = candidate.fields[values] if values < len(candidate.fields) else ""
    return FindWay(
        candidate.index_name,
        candidate.number,
        tuple(candidate.fields[:values]),
        behind if behind in by_path else "",
        down,
        tuple(takewhile(lambda field: _is_value(by_path.get(field)), _key_fields(definition))),
        candidate.where,
    )


def _candidates(definition: TableDefinition) -> Iterator[_Candidate]:
    yield _Candidate("", _key_fields(definition))
    for each in definition.indexes:
        if each.number not in definition.history.building:
            yield _Candidate(each.name, each.fields, each.number, each.where)


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


def _refuse(
    definition: TableDefinition, conditions: Sequence[FieldCondition], order: Sequence[str], down: bool
) -> NoReturn:
    values = [each.path for each in conditions if each.is_value]
    ranges = [each.path for each in conditions if not each.is_value]
    fields = [*values, *(each for each in order if each not in values)]
    if not order:
        fields += ranges[:1]
    there = ", ".join(map(index_words, definition.indexes)) or "none"
    would = f"one of the fields ({', '.join(fields)}) would"
    narrower = _would_serve(definition, conditions, order, down)
    if narrower is not None:
        asked = words_of_conditions(missing_of(narrower.where, conditions))
        would = f"the index {narrower.name} has rows with {', '.join(asked)} alone: ask for no others, or {would}"
    raise InvalidRequest(
        f"no index serves this: {would}. The table's key is {_key_words(definition)}, its indexes are {there}; `scan` "
        "goes through all rows"
    )


def _would_serve(
    definition: TableDefinition, conditions: Sequence[FieldCondition], order: Sequence[str], down: bool
) -> TableIndex | None:
    """An index of some rows only that would serve if it had all."""
    signed = [f"{'-' if down else ''}{each}" for each in order]
    for index in definition.indexes:
        if index.where:
            whole = replace(definition, indexes=(replace(index, where=()),), history=IndexHistory(), number=1)
            with suppress(InvalidRequest):
                if find_way(whole, conditions, signed).index_number == index.number:
                    return index
    return None


def _key_words(definition: TableDefinition) -> str:
    return definition.key if isinstance(definition.key, str) else f"({', '.join(each.name for each in definition.key)})"
