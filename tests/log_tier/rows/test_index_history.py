"""Definitions whose indexes came and went: their numbers, what they continue, and how they are written down."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kit.flight_rows import FLIGHTS, LATER_SCHEMA

from log_tier.model.errors import IndexBuilding, InvalidRequest, InvalidSchema, LimitExceeded, UnknownFormat
from log_tier.model.kept_history import KeptHistory
from log_tier.rows import alter_table
from log_tier.rows.alter_table import IndexChange
from log_tier.rows.definition import TableDefinition, says_form
from log_tier.rows.definitions.checks import check_index
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.finding.find_plan import find_plan
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import IndexHistory, TableIndex, condition_between
from router.remote.definitions import change_from, change_message, definition_from, definition_message

CAME = replace(FLIGHTS, indexes=(TableIndex(3, "by_delay", ("dep_delay",)),))
LATER = NumberedSchema(2, RowSchema.parse(LATER_SCHEMA))
CHAIN = [CAME]
CHAIN.append(CHAIN[-1].with_index("by_tail", ("tailnum",)))
CHAIN.append(CHAIN[-1].with_index_served(4))
CHAIN.append(CHAIN[-1].with_schema(LATER))
CHAIN.append(CHAIN[-1].without_index(3))
CHAIN.append(CHAIN[-1].without_index(4))
CHAIN.append(CHAIN[-1].with_index("by_tail", ("dep_delay",)))
LATE = conditions_of({"dep_delay": (60, None), "tailnum": "N1"}, FLIGHTS)
SOME_ROWS = [
    replace(FLIGHTS, indexes=(TableIndex(1, "late", ("tailnum",), LATE),)),
    CAME.with_index("late", ("tailnum",), LATE),
]
SOME_ROWS.append(SOME_ROWS[0].without_index(1))
KEPT = [
    TableDefinition(keeps=KeptHistory(age_ms=30 * 86_400_000)),
    replace(FLIGHTS, keeps=KeptHistory(versions=100)),
    replace(CHAIN[3], keeps=KeptHistory()),
]
_FIRST = replace(FLIGHTS, indexes=(TableIndex(1, "by_tail", ("carrier", "tailnum"), unique=True),))
ALONE = (_FIRST, _FIRST.without_index(1), replace(_FIRST, keeps=KeptHistory(versions=100)))


def test_a_number_is_not_used_again() -> None:
    assert [each.number for each in CHAIN] == [1, 2, 3, 4, 5, 6, 7]
    assert CHAIN[-1].indexes == (TableIndex(5, "by_tail", ("dep_delay",)),)
    assert [each.history.building for each in CHAIN] == [(), (4,), (), (), (), (), (5,)]
    assert FLIGHTS.with_index("by_tail", ("tailnum",)).indexes[0].number == 1


def test_each_continues_those_before_it_and_has_the_same_first_one() -> None:
    for at, definition in enumerate(CHAIN):
        assert definition.first == CAME
        for other_at, other in enumerate(CHAIN):
            assert definition.continues(other) == (at >= other_at)
    other = CAME.with_index("by_tail", ("dep_delay",))
    assert not other.continues(CHAIN[1])
    assert not CHAIN[1].continues(FLIGHTS)
    assert not CAME.with_schema(LATER).continues(CHAIN[1])


def test_they_are_written_down_and_sent() -> None:
    for definition in (*CHAIN, *SOME_ROWS, *KEPT, *ALONE):
        assert TableDefinition.from_document(json.loads(definition.text)) == definition
        assert definition_from(definition_message(definition)) == definition
    assert [json.loads(each.text)["v"] for each in (FLIGHTS, CAME, CHAIN[1], CHAIN[5])] == [1, 2, 3, 3]
    assert [json.loads(each.text)["v"] for each in SOME_ROWS] == [4, 4, 4]
    assert [json.loads(each.text)["v"] for each in KEPT] == [5, 5, 5]
    assert [json.loads(each.text)["keeps"] for each in KEPT] == [["age_ms", 2_592_000_000], ["versions", 100], ["all"]]
    assert [json.loads(each.text)["v"] for each in ALONE] == [6, 6, 6]
    assert "index_history" not in json.loads(SOME_ROWS[0].text)
    sent = definition_message(SOME_ROWS[1])
    assert [each.name for each in sent.indexes] == ["by_delay"], "who knows no conditions finds by others"
    assert (list(sent.building), list(sent.partial_building)) == ([], [4])
    for change in (
        IndexChange("by_tail", ("tailnum", "origin.code")),
        IndexChange("by_tail", ("tailnum",), LATE),
        IndexChange("by_tail", ("tailnum",), LATE, unique=True),
        IndexChange("by_tail"),
    ):
        assert change_from(change_message("flights", change)) == change


def test_what_landed_stays_readable() -> None:
    """The lines were written when each format landed; they are never written again."""
    lines = (Path(__file__).parent / "fixtures" / "definitions.jsonl").read_text().splitlines()
    for line, definition in zip(lines, [FLIGHTS, *CHAIN, *SOME_ROWS, *KEPT, *ALONE], strict=True):
        assert TableDefinition.from_document(json.loads(line)) == definition
        assert definition.text == line


def test_what_a_table_keeps_is_the_same_for_its_life() -> None:
    later = KEPT[1].with_schema(LATER)
    assert (later.keeps, later.first, later.continues(KEPT[1])) == (KEPT[1].keeps, KEPT[1], True)
    assert not later.continues(FLIGHTS)
    assert not replace(KEPT[1], keeps=KeptHistory(versions=7)).continues(KEPT[1])
    assert [says_form(each) for each in (None, KEPT[0], KEPT[1])] == [False, False, True]
    with pytest.raises(InvalidSchema, match="keeps of the table's definition"):
        TableDefinition(keeps=100)  # type: ignore[arg-type]
    document = KEPT[0].to_document()
    for wrong in ([], ["age_ms"], ["age_ms", 0], ["all", 1], ["days", 3], ["versions", "3"], 7):
        with pytest.raises((UnknownFormat, InvalidRequest)):
            TableDefinition.from_document({**document, "keeps": wrong})
    with pytest.raises(UnknownFormat):
        TableDefinition.from_document({**document, "v": 4})


def test_what_is_no_history_is_refused() -> None:
    for history in (
        IndexHistory(2, CAME.indexes, 4, (4,)),
        IndexHistory(1, CAME.indexes, 3, (4,)),
        IndexHistory(1, CAME.indexes, 4, (5,)),
        IndexHistory(1, CAME.indexes, 4, (4, 4)),
        IndexHistory(0, CAME.indexes, 4, (4,)),
    ):
        with pytest.raises(InvalidSchema, match="indexes of the table's definition"):
            replace(CHAIN[1], history=history)
    document = CHAIN[1].to_document()
    for wrong in ([1], [1, [["x"]], 4, [4]], [1, [], "4", [4]], "x"):
        with pytest.raises(UnknownFormat):
            TableDefinition.from_document({**document, "index_history": wrong})
    with pytest.raises(UnknownFormat):
        TableDefinition.from_document({**document, "v": 2})


def test_a_change_is_checked() -> None:
    assert IndexChange("by_tail", ("tailnum",)).next_of(CAME, "flights") == CHAIN[1]
    assert IndexChange("by_delay").next_of(CHAIN[3], "flights") == CHAIN[4]
    with pytest.raises(InvalidSchema, match="the table has one of that name already, by dep_delay: drop it") as refused:
        IndexChange("by_delay", ("tailnum",)).next_of(CAME, "flights")
    assert refused.value.fields["field"] == "by_delay"
    with pytest.raises(InvalidSchema, match="has no field gate"):
        IndexChange("by_gate", ("gate",)).next_of(CHAIN[3], "flights")
    assert IndexChange("late", ("tailnum",), LATE).next_of(CAME, "flights") == SOME_ROWS[1]
    with pytest.raises(InvalidSchema, match="the table has one of that name already, of other rows: drop it"):
        IndexChange("late", ("tailnum",)).next_of(SOME_ROWS[1], "flights")
    with pytest.raises(InvalidSchema, match="the condition on dep_delay: 'x' is no float"):
        IndexChange("late", ("tailnum",), (condition_between("dep_delay", b"\2x\0", b"\xff"),)).next_of(CAME, "flights")
    with pytest.raises(InvalidRequest, match="no index 'by_x'; it has by_delay"):
        IndexChange("by_x").next_of(CAME, "flights")
    for definition in (None, TableDefinition(key="str", value="str")):
        with pytest.raises(InvalidRequest, match="tables of rows alone have indexes"):
            IndexChange("by_tail", ("tailnum",)).next_of(definition, "words")


def test_a_definition_that_no_barrier_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alter_table, "DEFINITION_BYTES_MAX", 100)
    with pytest.raises(LimitExceeded, match=r"flights with this index would have .* and a barrier takes 100"):
        IndexChange("by_tail", ("tailnum",)).next_of(CAME, "flights")


def test_what_is_being_built_serves_nobody_and_says_so() -> None:
    building, served = CHAIN[1], CHAIN[2]
    asked = conditions_of({"tailnum": "N1"}, building)
    with pytest.raises(IndexBuilding, match="the index by_tail would serve this, and is being built") as refused:
        find_plan(building, asked)
    assert refused.value.fields["index"] == "by_tail"
    plan = find_plan(served, asked)
    assert (plan.index_name, plan.index_number) == ("by_tail", 4)
    assert find_plan(building, conditions_of({"tailnum": "N1", "dep_delay": 1.0}, building)).index_name == "by_delay"
    with pytest.raises(InvalidRequest, match="no index serves this"):
        find_plan(building, (), ("tailnum", "flight"))
    with pytest.raises(IndexBuilding):
        check_index(building.indexes[1], building)
    check_index(served.indexes[1], served)
