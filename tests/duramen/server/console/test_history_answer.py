"""`GET /history`: what may be asked, and what is answered from which rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kit.seen_partitions import seen_partition

from duramen.server.console.history import HOUR_S, WEEK_S, ServerHistory
from duramen.server.console.history_answer import (
    POINTS_MAX,
    HistoryQuery,
    history_to_json,
    look_back,
    parse_history_query,
)
from duramen.server.console.history_ring import ServerSample
from log_tier.model.errors import InvalidRequest

NOW_MS = 1_700_000_000_000


def filled(seconds: int, *, without: range = range(0)) -> ServerHistory:
    """Two tables, written to at 100 and 10 records a second; the first one lags by 5 records."""
    history = ServerHistory()
    for second in range(seconds):
        if second in without:
            continue
        orders = seen_partition(0, 100 * second, 100 * second - 5)
        secret = seen_partition(3, 10 * second, 10 * second, table="secret")
        server = ServerSample(0.002, 0.01 if second % 2 else None, 1000 - second, second != 7)
        history.record(second + 0.5, [orders, secret], server)
    return history


def answered(history: ServerHistory, text: str, now_s: float, **rights: Any) -> dict[str, Any]:
    query = parse_history_query(text)
    found: dict[str, Any] = json.loads(history_to_json(look_back(history, query, now_s, NOW_MS), query, **rights))
    return found


def test_seconds_as_they_were() -> None:
    found = answered(filled(10, without=range(4, 6)), "since=-10&step=1&of=orders%2F0", 9.9)
    assert (found["format"], found["step_s"], found["now_ms"]) == (1, 1, NOW_MS)
    assert found["begin_ms"] == NOW_MS - 9_900 - 1_000, "the step in which ten seconds ago is"
    assert found["all"]["written_per_s"] == [None, None, 110, 110, 110, None, None, None, 110, 110, 110]
    assert found["all"]["lag_records"] == [None, 5, 5, 5, 5, None, None, 5, 5, 5, 5]
    assert found["server"]["sync_p99_s"][:2] == [None, 0.002]
    assert found["server"]["queue_age_s"][1:4] == [None, 0.01, None]
    assert found["server"]["disk_free_bytes"][-1] == 991
    assert found["server"]["ready"][6:10] == [None, True, False, True]
    (orders,) = found["of"]
    assert (orders["table"], orders["partition"]) == ("orders", 0)
    assert orders["last"] == [None, 0, 100, 200, 300, None, None, 600, 700, 800, 900]
    assert orders["applied"][-1] == 895
    assert orders["written_per_s"] == [None, None, 100, 100, 100, None, None, None, 100, 100, 100]
    assert {found["states"][each] for each in orders["state"] if each is not None} == {"ready"}


def test_a_step_shows_the_worst_and_the_last() -> None:
    found = answered(filled(20), "since=-19&step=10", 19.9)
    assert (found["step_s"], found["server"]["ready"]) == (10, [False, True]), "the first step has second 7"
    assert found["all"]["written_per_s"] == [None, 110]


def test_an_hour_second_by_second_and_a_week() -> None:
    history = filled(HOUR_S + 100)
    now_s = HOUR_S + 99.9
    assert len(answered(history, "step=1", now_s)["all"]["lag_records"]) == POINTS_MAX + 1
    assert answered(history, "", now_s)["step_s"] == 10
    week = answered(history, f"since=-{WEEK_S}&step=1", now_s)
    assert (week["step_s"], week["kept_step_s"]) == (180, 60), "whole steps of a minute, no more than 3,600"
    assert [each for each in week["all"]["written_per_s"] if each is not None] == [110] * (HOUR_S // 180)


def test_a_clock_that_is_wrong_moves_the_whole() -> None:
    history = filled(100)
    query = parse_history_query("since=-60&step=1")
    right, wrong = (look_back(history, query, 99.9, NOW_MS + error) for error in (0, -3_600_000))
    assert right.points == wrong.points
    assert right.begin_ms - wrong.begin_ms == 3_600_000
    absolute = parse_history_query(f"since={(NOW_MS - 60_000) / 1000}&step=1")
    assert look_back(history, absolute, 99.9, NOW_MS).points == right.points
    assert len(look_back(history, absolute, 99.9, NOW_MS - 7_200_000).points) == 2, "since then is yet to come"
    assert look_back(history, absolute, 99.9, NOW_MS + 86_400_000).points[0] == []


def test_others_tables_are_not_in_it() -> None:
    history = filled(10)
    text = "since=-5&step=1&of=secret/3&of=orders/0&of=no/1"
    found = answered(history, text, 9.9, shows=lambda table: table == "orders")
    assert found["all"]["written_per_s"][-1] == 100
    assert [each["table"] for each in found["of"]] == ["orders"]
    found = answered(history, text, 9.9, shows=lambda _: False)
    assert (found["all"]["written_per_s"][-1], found["all"]["lag_records"][-1], found["of"]) == (0, 0, [])
    assert [each["last"][-1] for each in answered(history, text, 9.9)["of"]] == [90, 900, None]


def test_tables_come_and_go() -> None:
    history = ServerHistory()
    history.record(0.5, [seen_partition(0, 100, 100)], ServerSample())
    history.record(1.5, [seen_partition(0, 110, 110), seen_partition(1, 5000, 5000)], ServerSample())
    history.record(2.5, [seen_partition(0, 3, 3), seen_partition(1, 5001, 5001)], ServerSample())
    history.record(3.5, [seen_partition(0, 4, 0), seen_partition(1, 5001, 4000)], ServerSample())
    found = answered(history, "since=-4&step=1", 3.9)["all"]
    assert found["written_per_s"] == [None, None, 10, 1, 1], "what came with a new table was not written then"
    assert found["applied_per_s"] == [None, None, 10, 1, 0], "a replica that is built anew applies less than nothing"
    assert found["lag_records"][-1] == 4 + 1001


def test_what_is_not_given_is_the_last_hour() -> None:
    assert parse_history_query("") == HistoryQuery(-3600.0, 0, ())
    assert parse_history_query("of=a%2Fb%2F7&of=%3Cimg%20src%3Dx%3E/0").of == (("a/b", 7), ("<img src=x>", 0))


@pytest.mark.parametrize(
    "text",
    [
        "since=now", "since=nan", "since=-inf", "step=-1", "step=1.5", f"step={WEEK_S + 1}", "step=1&step=2", "until=7",
        "of=orders", "of=orders/x", "&".join(["of=a/1"] * 33), "&".join(["of=a/1"] * 99), "since", "a=1;b=2",
    ],
)  # fmt: skip
def test_what_is_not_answered(text: str) -> None:
    with pytest.raises(InvalidRequest, match="history"):
        parse_history_query(text)


def test_an_empty_history_knows_nothing() -> None:
    found = answered(ServerHistory(), "since=-5&step=1&of=a/0", 1_000.0)
    assert found["all"]["lag_records"] == [None] * 6
    assert found["of"][0]["last"] == [None] * 6
