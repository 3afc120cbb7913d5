"""What the checker asks of a watch whose log is compacted meanwhile. Pure: a log is written down by hand."""

from __future__ import annotations

import pytest

from duramen.verification.checker import check_history
from duramen.verification.history import Call, History, LogRecord

LOG = [
    LogRecord(0, 0, "put", "a", "1", batch=0),
    LogRecord(0, 1, "put", "b", "2", batch=1),
    LogRecord(0, 2, "put", "a", "3", batch=2),
    LogRecord(0, 3, "put", "b", "4", condition="present", batch=3),  # it replaces nothing: it depends on what is there
    LogRecord(0, 4, "put", "a", "5", batch=4),
]


def watched(*offsets: int, to: int = 4, compacted: bool = True) -> list[str]:
    changes = [[each, "put", LOG[each].key, LOG[each].value] for each in offsets]
    arguments = {"from": 0, "session": False, **({"compacted": True} if compacted else {})}
    watch = Call(0, 9, "watch", 1, 2, 0, arguments, "ok", {"to": to, "changes": changes})
    writes = [
        Call(
            number,
            1,
            "write",
            0,
            0,
            0,
            {"operations": [{"operation": "put", "key": each.key, "value": each.value, "condition": each.condition}]},
            "unknown",
        )
        for number, each in enumerate(LOG, start=100)
    ]
    return [violation.invariant for violation in check_history(History(1, [*writes, watch], LOG))]


@pytest.mark.parametrize("offsets", [(0, 1, 2, 3, 4), (1, 2, 3, 4), (0, 1, 3, 4), (1, 3, 4)])
def test_what_later_writes_replaced_may_be_missing(offsets: tuple[int, ...]) -> None:
    assert watched(*offsets) == []


@pytest.mark.parametrize("offsets", [(1, 3), (3, 4), (1, 4), (1, 2, 3)])
def test_the_last_change_of_each_key_and_what_it_rests_on_are_shown(offsets: tuple[int, ...]) -> None:
    assert watched(*offsets) == ["I7"]


def test_a_replacement_that_the_watch_did_not_reach_excuses_nothing() -> None:
    assert watched(1, 3, to=3) == ["I7"]


def test_order_and_what_is_shown_are_judged_all_the_same() -> None:
    assert watched(3, 1, 4) == ["I7"]


def test_a_log_that_is_not_compacted_loses_nothing() -> None:
    assert watched(1, 3, 4, compacted=False) == ["I7"]
