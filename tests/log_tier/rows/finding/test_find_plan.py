"""What a plan finds, against looking at each row's values (Y1), and which index it takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.avro_rows import avro_encode

from log_tier.model.errors import InvalidRequest, InvalidSchema
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.condition_words import conditions_of_words, words_of_conditions
from log_tier.rows.finding.conditions import CONDITIONS_MAX, conditions_of, given_by
from log_tier.rows.finding.find_plan import find_plan, order_of
from log_tier.rows.finding.find_planner import FindPlanner
from log_tier.rows.finding.found_range import FindPlan
from log_tier.rows.finding.row_filter import row_filter
from log_tier.rows.framing import frame
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import OPEN_END, FieldCondition, TableIndex

SCHEMA = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "flight", "type": "int"},
        {"name": "tail", "type": ["null", "string"]},
        {"name": "delay", "type": "double"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "origin",
            "type": ["null", {"type": "record", "name": "Airport", "fields": [{"name": "code", "type": "string"}]}],
        },
        {"name": "marks", "type": {"type": "array", "items": "string"}},
    ],
}
INDEXES = (
    TableIndex(1, "by_tail", ("tail", "delay")),
    TableIndex(2, "by_delay", ("delay",)),
    TableIndex(3, "by_origin", ("origin.code", "day", "delay")),
)
PARTIAL_INDEXES: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "late": (("day",), {"delay": (0.0, None)}),
    "of_newark": (("tail", "delay"), {"origin.code": "EWR"}),
    "grounded": (("day",), {"tail": None, "delay": (None, 2.5)}),
}
FLIGHTS = TableDefinition(
    key=(KeyField("carrier", "str"), KeyField("flight", "int")),
    value="row",
    schemas=(NumberedSchema(7, RowSchema.parse(SCHEMA)),),
    indexes=INDEXES,
)
CHOICES: Mapping[str, list[Any]] = {
    "carrier": ["DL", "UA", "UA\0"],
    "flight": [-70000, -1, 0, 1, 255, 256],
    "tail": [None, "", "N1", "N10", "N2"],
    "delay": [-math.inf, -1.5, 0.0, 2.5, math.inf, math.nan],
    "day": [date(1969, 12, 31), date(1970, 1, 1), date(2026, 11, 28)],
    "origin.code": [None, "EWR", "JFK"],
}
Row = dict[str, Any]


def made_row(random: Random, number: int) -> Row:
    row: Row = {name: random.choice(values) for name, values in CHOICES.items()}
    return {**row, "carrier": random.choice(["DL", "UA"]), "flight": number}


def stored(row: Row) -> tuple[bytes, bytes]:
    code = row["origin.code"]
    value = {**row, "origin": None if code is None else {"code": code}, "marks": ["a"]}
    return FLIGHTS.key_of([row["carrier"], row["flight"]]), frame(7, avro_encode(SCHEMA, value))


def sorts(value: Any) -> tuple[int, Any]:
    """None first, what is no number last."""
    if value is None:
        return 0, 0
    return (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)


def meets(row: Row, wanted: Mapping[str, Any]) -> bool:
    for name, condition in wanted.items():
        here = sorts(row[name])
        if not isinstance(condition, tuple):
            if here != sorts(condition):
                return False
            continue
        start, end = condition
        if here[0] == 2 or (start is not None and here < sorts(start)) or (end is not None and here >= sorts(end)):
            return False
    return True


def run(plan: FindPlan, rows: list[Row], definition: TableDefinition = FLIGHTS) -> list[Row]:
    """As a replica reads it: in the order of the index's entries, or of keys."""
    entries = definition.judge.entries
    assert entries is not None
    place = next((at for at, each in enumerate(definition.indexes) if each.name == plan.index_name), None)
    pairs = []
    for row in rows:
        key, value = stored(row)
        entry = key if place is None else entries.of(key, value)[place][2:]
        if entry:
            pairs.append((entry, value, row))
    keep: Callable[[bytes], bool] = row_filter(plan.rest, FLIGHTS)
    pairs.sort(key=lambda each: each[0], reverse=plan.reverse)
    inside = [each for each in pairs if plan.start <= each[0] and (plan.end is None or each[0] < plan.end)]
    return [row for _, value, row in inside if keep(value)]


def with_partial(definition: TableDefinition) -> TableDefinition:
    more = [
        TableIndex(number, name, fields, conditions_of(where, definition))
        for number, (name, (fields, where)) in enumerate(PARTIAL_INDEXES.items(), 11)
    ]
    return replace(definition, indexes=(*definition.indexes, *more))


BOTH = with_partial(FLIGHTS)


def random_conditions(random: Random) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    for name in random.sample(sorted(CHOICES), random.randint(0, 3)):
        one, other = random.choice(CHOICES[name]), random.choice(CHOICES[name])
        if random.random() < 0.5:
            wanted[name] = one
        elif one is None or other is None or sorts(one) <= sorts(other):
            wanted[name] = (one, other)
    return wanted


@given(st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_a_plan_finds_the_rows_that_meet_its_conditions(random: Random) -> None:
    rows = [made_row(random, number) for number in range(random.randrange(30))]
    wanted = random_conditions(random)
    field = random.choice(sorted(CHOICES))
    order = random.choice([None, None, field, f"-{field}"])
    asked = conditions_of(wanted, FLIGHTS)
    try:
        plan = find_plan(FLIGHTS, asked, order)
    except InvalidRequest:
        begins = {INDEXES[at].fields[0] for at in range(len(INDEXES))} | {"carrier"}
        assert order is not None or not begins & wanted.keys(), "no index begins with a field that is asked for"
        return
    found = run(plan, rows)
    assert sorted(each["flight"] for each in found) == [each["flight"] for each in rows if meets(each, wanted)]
    if order is not None:
        values = [sorts(each[field]) for each in found]
        assert values == sorted(values, reverse=plan.reverse)
    assert plan.reverse == (order is not None and order.startswith("-"))


@given(st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_indexes_of_some_rows_miss_none_that_is_asked_for(random: Random) -> None:
    """With them there is a plan wherever there was one without them, and each finds what meets the conditions."""
    rows = [made_row(random, number) for number in range(random.randrange(30))]
    wanted = random_conditions(random)
    alone = random.choice([BOTH, with_partial(replace(FLIGHTS, indexes=()))])
    field = random.choice(sorted(CHOICES))
    order = random.choice([None, None, field, f"-{field}"])
    asked = conditions_of(wanted, alone)
    try:
        plan = find_plan(alone, asked, order)
    except InvalidRequest:
        without = replace(alone, indexes=tuple(each for each in alone.indexes if not each.where))
        with pytest.raises(InvalidRequest):
            find_plan(without, asked, order)
        return
    assert FindPlanner(alone).plan(wanted, order) == plan
    found = run(plan, rows, alone)
    assert sorted(each["flight"] for each in found) == [each["flight"] for each in rows if meets(each, wanted)]
    if order is not None:
        values = [sorts(each[field]) for each in found]
        assert values == sorted(values, reverse=plan.reverse)


@pytest.mark.parametrize(
    ("wanted", "order", "index", "rest"),
    [
        ({"delay": (0.0, None)}, "day", "late", ()),
        ({"delay": (1.5, 9.0)}, "-day", "late", ("delay",)),
        ({"delay": 7.0}, "day", "late", ("delay",)),
        ({"delay": (-1.0, None)}, "day", None, ()),
        ({"delay": math.nan}, "day", None, ()),
        ({"delay": (0.0, None)}, None, "late", ()),
        ({"delay": (9.0, None)}, None, "by_delay", ()),
        ({"delay": 7.0}, None, "by_delay", ()),
        ({"origin.code": "EWR", "tail": "N1"}, None, "of_newark", ()),
        ({"origin.code": "JFK", "tail": "N1"}, None, "by_tail", ("origin.code",)),
        ({"origin.code": ("EWR", None), "tail": "N1"}, None, "by_tail", ("origin.code",)),
        ({"origin.code": "EWR"}, None, "by_origin", ()),
        ({"tail": None, "delay": (None, 2.5), "day": date(1970, 1, 1)}, None, "grounded", ()),
        ({"tail": None, "delay": (None, 3.0), "day": date(1970, 1, 1)}, None, "by_tail", ("day",)),
    ],
)
def test_an_index_of_some_rows_serves_who_asks_for_no_others(
    wanted: Mapping[str, Any], order: str | None, index: str | None, rest: tuple[str, ...]
) -> None:
    asked = conditions_of(wanted, BOTH)
    if index is None:
        why = "no index serves this: the index late has rows with delay=0.0.. alone: ask for no others, or one of the"
        with pytest.raises(InvalidRequest, match=why):
            find_plan(BOTH, asked, order)
        return
    plan = find_plan(BOTH, asked, order)
    assert (plan.index_name, tuple(each.path for each in plan.rest)) == (index, rest)


def test_conditions_alone_are_served_by_the_index_that_has_them() -> None:
    alone = with_partial(replace(FLIGHTS, indexes=()))
    plan = find_plan(alone, conditions_of({"origin.code": "EWR"}, alone))
    assert (plan.index_name, plan.start, plan.end, plan.rest) == ("of_newark", b"", None, ())
    with pytest.raises(InvalidRequest, match=r"of_newark \(tail, delay\) where origin.code=EWR"):
        find_plan(alone, conditions_of({"origin.code": "JFK"}, alone))


def test_a_planner_takes_an_index_of_some_rows_only_for_values_that_it_has() -> None:
    planner = FindPlanner(BOTH)
    for start, by_day, by_any in ((0.0, "late", "late"), (-1.0, "", "by_delay"), (5.0, "late", "by_delay")):
        asked = {"delay": (start, None)}
        assert planner.plan(asked).index_name == by_any
        if by_day:
            assert planner.plan(asked, "day").index_name == by_day
        else:
            assert planner.plan(asked, "day")[::7] == (by_any, ("day",)), "the index late has not all of these rows"
            with pytest.raises(InvalidRequest, match="the index late has rows with"):
                find_plan(BOTH, conditions_of(asked, BOTH), "day")


def test_conditions_are_said_as_they_were_given() -> None:
    for _, where in PARTIAL_INDEXES.values():
        assert given_by(conditions_of(where, FLIGHTS)) == where
    given: dict[str, Any] = {"day": (date(2026, 11, 28), None), "carrier": "UA", "flight": (1, 5), "tail": None}
    words = words_of_conditions(conditions_of(given, FLIGHTS))
    assert words == ["day=2026-11-28..", "carrier=UA", "flight=1..5", "tail"]
    assert conditions_of_words(words, FLIGHTS) == given


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ((FieldCondition("delay", b"", OPEN_END, False),), "each row meets the condition on delay"),
        ((FieldCondition("delay", b"\x15\1", b"\x15\1\0", True),), "the condition on delay: 1 is no float"),
        ((FieldCondition("delay", b"\x15", OPEN_END, False),), "the condition on delay: the bytes"),
        ((FieldCondition("flight", b"\x15\1\0", OPEN_END, False),), "the condition on flight: 1 is no int"),
        ((FieldCondition("flight", b"\x15\2", b"\x15\1", False),), "no row meets the condition on flight"),
        ((FieldCondition("gate", b"\0", b"\0\0", True),), "has no field gate"),
        ((FieldCondition("tail", b"\0", b"\0\0", True),) * 2, "two conditions on tail"),
        ((FieldCondition("tail", b"\2" + b"a" * 600 + b"\0", OPEN_END, False),), "more than 509 bytes"),
        ((FieldCondition("a b", b"\0", b"\0\0", True),), "is no condition on a field"),
        (("tail",), "is no condition on a field"),
    ],
)
def test_conditions_of_an_index_that_are_none_are_refused(where: Any, why: str) -> None:
    with pytest.raises(InvalidSchema, match=why):
        replace(FLIGHTS, indexes=(TableIndex(1, "by", ("tail",), where),))


@pytest.mark.parametrize(
    ("wanted", "order", "index", "rest"),
    [
        ({}, None, "", ()),
        ({"carrier": "UA"}, None, "", ()),
        ({"carrier": "UA", "tail": "N1"}, None, "", ("tail",)),
        ({"tail": "N1"}, None, "by_tail", ()),
        ({"tail": "N1", "delay": (60, None)}, None, "by_tail", ()),
        ({"tail": "N1", "delay": (60, None)}, "-delay", "by_tail", ()),
        ({"tail": ("N1", "N2"), "delay": 1.0}, None, "by_delay", ("tail",)),
        ({"delay": 1.0}, "day", None, ()),
        ({"origin.code": "EWR"}, "-day", "by_origin", ()),
        ({"origin.code": "EWR", "day": date(2013, 1, 1)}, "day", "by_origin", ()),
        ({"origin.code": "EWR", "delay": 2.0}, ("day", "delay"), "by_origin", ("delay",)),
        ({}, "-delay", "by_delay", ()),
        ({"day": date(2013, 1, 1)}, "delay", "by_delay", ("day",)),
        ({"day": date(2013, 1, 1)}, None, None, ()),
    ],
)
def test_which_index_serves(
    wanted: Mapping[str, Any], order: str | tuple[str, ...] | None, index: str | None, rest: tuple[str, ...]
) -> None:
    asked = conditions_of(wanted, FLIGHTS)
    if index is None:
        with pytest.raises(InvalidRequest, match="no index serves this: one of the fields"):
            find_plan(FLIGHTS, asked, order)
        return
    plan = find_plan(FLIGHTS, asked, order)
    assert (plan.index_name, tuple(each.path for each in plan.rest)) == (index, rest)


@pytest.mark.parametrize("order", ["flight", "-flight", ("day", "flight")])
def test_who_can_sort_is_served_in_another_order(order: str | tuple[str, ...]) -> None:
    """By the same entries as without an order; nobody sorts where an index has it."""
    asked = conditions_of({"tail": "N1", "day": date(2013, 1, 1)}, FLIGHTS)
    unsorted = find_plan(FLIGHTS, asked)
    plan = find_plan(FLIGHTS, asked, order, sorts=True)
    fields, down = order_of(order)
    assert plan == unsorted._replace(sort=fields, sort_reverse=down)
    in_order = find_plan(FLIGHTS, asked, "-delay", sorts=True)
    assert (in_order.index_name, in_order.sort, in_order.reverse) == ("by_tail", (), True)
    assert in_order == find_plan(FLIGHTS, asked, "-delay")


def test_what_nobody_sorts() -> None:
    """A whole table, a field that no index could sort by, and one that is none."""
    tail = conditions_of({"tail": "N1"}, FLIGHTS)
    for conditions, order, why in (
        ((), "flight", "no index serves this"),
        (tail, "marks", "no index sorts by marks"),
        (tail, "gate", "has no field gate"),
        (conditions_of({"flight": 1}, FLIGHTS), "flight", "no index serves this"),
    ):
        with pytest.raises(InvalidRequest, match=why):
            find_plan(FLIGHTS, conditions, order, sorts=True)


def test_a_refusal_says_which_index_would_serve() -> None:
    asked = conditions_of({"day": date(2013, 1, 1), "delay": (0, None)}, FLIGHTS)
    with pytest.raises(InvalidRequest, match=r"fields \(day, flight\) would") as caught:
        find_plan(FLIGHTS, asked, "flight")
    assert "key is (carrier, flight)" in caught.value.message
    assert "by_tail (tail, delay)" in caught.value.message


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"gate": "B7"}, "no row is found by 'gate': the schema Flight has no field gate"),
        ({"marks": "a"}, "no index sorts by marks"),
        ({"flight": "7"}, "the condition on flight: it is a int, '7' is a str"),
        ({"origin.code": 7}, "the condition on origin.code: it is a str, 7 is a int"),
        ({"delay": (1, 2, 3)}, "a range of delay is"),
        ({"delay": (2, 1)}, "the first is behind the second"),
        ({f"f{number}": 1 for number in range(CONDITIONS_MAX + 1)}, "at most 16 conditions"),
    ],
)
def test_conditions_that_are_none_are_refused_by_field(wanted: Mapping[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        conditions_of(wanted, FLIGHTS)


@pytest.mark.parametrize("order", [("day", "-delay"), 7, "", ("-",)])
def test_orders_that_are_none_are_refused(order: Any) -> None:
    with pytest.raises(InvalidRequest, match="order="):
        find_plan(FLIGHTS, (), order)


def test_a_table_of_bytes_has_no_fields_to_find_by() -> None:
    with pytest.raises(InvalidRequest, match="rows alone are found by their fields"):
        conditions_of({"a": 1}, TableDefinition())
