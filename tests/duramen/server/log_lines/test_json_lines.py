"""Lines of JSON: always one line, always JSON, and the place of a message as fields."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duramen.server.log_lines.json_lines import JsonLines
from log_tier.model.errors import LogDamaged
from log_tier.model.identifiers import Partition, PartitionId, PartitionName, TableId


def line(message: object, *arguments: object, **more: Any) -> dict[str, Any]:
    """What one call of a logger gives."""
    record = logging.getLogger("a.place").makeRecord(
        "a.place", logging.WARNING, __file__, 1, message, arguments, more.get("exc_info"), extra=more.get("extra")
    )
    text = JsonLines().format(record)
    assert "\n" not in text
    assert "\r" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_every_line_says_when_where_and_what() -> None:
    found = line("%s waits", "n1")
    assert found.pop("time").endswith("+00:00")
    assert found.pop("process") > 0
    assert found == {"level": "warning", "logger": "a.place", "message": "n1 waits"}


def test_the_place_of_a_partition_is_fields() -> None:
    found = line("%s is slow", PartitionName("orders", 3))
    assert (found["message"], found["table"], found["partition"]) == ("orders/3 is slow", "orders", 3)
    found = line("%s is slow", PartitionId(TableId("x" * 22), Partition(1)))
    assert (found["table_id"], found["partition"]) == ("x" * 22, 1)


def test_an_error_brings_its_code_and_its_fields() -> None:
    damaged = LogDamaged("it is", partition=2, offset=7, file="a.log")
    found = line("stopped: %s", damaged)
    assert (found["error"], found["partition"], found["offset"]) == ("log_damaged", 2, 7)
    assert found["fields"] == {"file": "a.log"}


def test_the_closest_word_counts() -> None:
    error = LogDamaged("it is", partition=2, offset=7)
    found = line("%s: %s", PartitionName("orders", 3), error, extra={"offset": 9, "duration_ms": 0.5})
    assert (found["partition"], found["offset"], found["duration_ms"]) == (3, 9, 0.5)


def test_what_every_line_says_cannot_be_replaced() -> None:
    found = line("m", extra={"time": "never", "level": "none", "logger": "x"})
    assert (found["level"], found["logger"]) == ("warning", "a.place")
    assert found["time"] != "never"


def test_a_traceback_stays_in_its_line() -> None:
    try:
        raise LogDamaged("of a\nlong story", offset=4)
    except LogDamaged:
        found = line("it ended", exc_info=sys.exc_info())
    assert "LogDamaged" in found["traceback"]
    assert "\n" in found["traceback"]
    assert (found["error"], found["offset"]) == ("log_damaged", 4)


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def test_what_cannot_be_formatted_is_a_line_that_says_so() -> None:
    assert "cannot be shown" in line("%d records", "many")["message"]
    assert "cannot be shown" in line("%s", Unshowable())["message"]
    assert "cannot be shown" in line("m", extra={"what": Unshowable()})["what"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (b"\xff\x00k", "\\xff\x00k"),
        (None, None),
        (2.5, 2.5),
        ((1, 2), "(1, 2)"),
    ],
)
def test_values_that_json_lacks_are_text(value: object, shown: object) -> None:
    assert line("m", extra={"value": value})["value"] == shown


@given(st.text() | st.binary(), st.text(min_size=1))
def test_hostile_text_is_one_line_of_json(value: str | bytes, key: str) -> None:
    found = line("%s", value)
    assert isinstance(found["message"], str)
    line(key.replace("%", ""), extra={"key": value})
