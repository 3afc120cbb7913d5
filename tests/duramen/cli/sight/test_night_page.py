"""The page: what stands first, on terminals of every size, and nothing that a terminal obeys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.client.status_documents import disk, document, log, partition

from duramen.cli.sight.night_page import PageLine, Silence, night_page
from duramen.server.sight.status_history import StatusHistory


def trouble(what: str, *, blocks: bool = True) -> dict[str, Any]:
    return {"kind": "behind", "what": what, "do": "", "blocks": blocks}


def page_of(
    *documents: dict[str, Any], columns: int = 120, rows: int = 40, silence: Silence | None = None
) -> list[PageLine]:
    history = StatusHistory()
    for second, each in enumerate(documents):
        history.add(each, float(second))
    return night_page(history, "localhost:7070", columns, rows, silence)


def test_all_is_well() -> None:
    first = document(partition(0, last=9, applied=9), log=log(0, 0, 0), disk=disk(1 << 39), memory_bytes=3 << 20)
    later = first | {"partitions": [partition(0, last=1209, applied=1209)], "log": log(12, 2048, 6), "uptime_s": 101.0}
    lines = page_of(first, later)
    assert [line.text for line in lines[1:]] == [
        "all is well",
        "",
        "log     12 batches/s  2.0 KiB/s  6 syncs/s  queue 0 batches (0 B)",
        "disk    512.0 GiB of 1.0 TiB free",
        "memory  3.0 MiB",
        "",
        "partition                state         copies written/s applied/s         lag         for      trend level in",
        "orders/0                 ready            1/1     1,200     1,200           -           -",
    ]
    assert [line.style for line in lines[:2]] == ["title", "good"]
    assert lines[0].text.startswith("duramen 1  localhost:7070  single n1  up 1 min 41 s  ")


def test_what_is_wrong_stands_first() -> None:
    facts = document(
        partition(0, last=9, applied=9),
        partition(1, last=12_009, applied=9, state="behind", lag_s=65.0, reason="the disk is slow"),
        ready=False, first="wait",
        troubles=[trouble("orders/1 lags"), trouble("the disk is nearly full", blocks=False)],
        nodes=[{"node": "a", "alive": True, "reason": ""}, {"node": "b", "alive": False, "reason": "silent for 9 s"}],
    )  # fmt: skip
    texts = [(line.text, line.style) for line in page_of(facts)[1:]]
    assert texts[:3] == [("NOT READY: orders/1 lags", "bad"), ("do first: wait", "head"),
                         ("also: the disk is nearly full", "warn")]  # fmt: skip
    assert ("nodes   1 of 2 answer, lost: b (silent for 9 s)", "bad") in texts
    assert " ".join(texts[-2][0].split()) == "orders/1 behind 1/1 12,000 1 min 5 s the disk is slow"
    assert texts[-2][1] == "warn"


def test_a_terminal_of_80_columns_shows_how_long_a_lag_lasts() -> None:
    first = document(partition(0, last=81_204, applied=0, state="behind", lag_s=65.0), partition(1, last=9, applied=9))
    later = document(
        partition(0, last=81_204, applied=200, state="behind", lag_s=66.0),
        partition(1, last=9, applied=9),
        uptime_s=101.0,
    )
    page = page_of(first, later, columns=80)
    assert [line.text for line in page[-3:]] == [
        "partition state  copies written/s applied/s    lag       for  trend level in",
        "orders/0  behind    1/1         0       200 81,004 1 min 6 s -200/s 6 min 45 s",
        "orders/1  ready     1/1         0         0      -         -",
    ]


def test_a_log_in_another_process() -> None:
    server = {
        "address": "log:7071", "alive": True, "reason": "", "stopped": None, "disk_free_bytes": 1 << 39,
        "disk_full_bytes": 1 << 40, "queue_age_s": 2.5, "queued_batches": 1, "queued_bytes": 700, "sync_p99_s": 0.0042,
    }  # fmt: skip
    assert PageLine(
        "log     at log:7071  queue 1 batch (700 B)  oldest 2.5 s  sync p99 4.2 ms  disk 512.0 GiB of 1.0 TiB free",
        "plain",
    ) in page_of(document(log_server=server))
    older = server | {"queue_age_s": None, "sync_p99_s": None, "disk_free_bytes": None}
    assert PageLine("log     at log:7071", "plain") in page_of(document(log_server=older))
    gone = server | {"alive": False, "reason": "refused"}
    assert PageLine("log     its server does not answer: refused", "bad") in page_of(document(log_server=gone))


def test_a_falling_lag_has_an_end_and_a_rising_one_has_none() -> None:
    first = document(partition(0, last=1000, applied=0), partition(1, last=1000, applied=0))
    later = document(partition(0, last=1000, applied=200), partition(1, last=1100, applied=0), uptime_s=101.0)
    rising, falling = (line.text for line in page_of(first, later)[-2:])
    assert rising.endswith("+100/s never at this rate")
    assert falling.endswith("-200/s 4.0 s")


def test_a_server_that_is_silent() -> None:
    lines = page_of(document(), silence=Silence(12.0, "no server answers\nat n1"))
    assert lines[1] == PageLine("NO ANSWER for 12.0 s, what follows is as old: no server answers at n1", "bad")


def test_partitions_without_room_are_counted() -> None:
    facts = document(*(partition(number, last=9, applied=9, ready=number % 2) for number in range(1000)))
    lines = page_of(facts, rows=24)
    assert len(lines) == 24
    assert lines[-1].text == "and 982 partitions more without room here, 482 of them not well"
    assert sum(line.text.startswith("orders/") for line in lines) == 18


def test_a_thousand_troubles() -> None:
    lines = page_of(document(first="look", troubles=[trouble(f"t{number}") for number in range(1000)]))
    assert [line.text for line in lines[1:7]] == [
        "not all is well: t0", "do first: look", "also: t1", "also: t2", "also: t3",
        "and 996 more (`duramen status --json`)",
    ]  # fmt: skip


HOSTILE = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(["\x1b[2J", "\x9b31m", "a\r\nb", "‮x"])


@given(HOSTILE, HOSTILE, st.integers(1, 200), st.integers(1, 60), st.integers(0, 80), st.booleans())
def test_it_fits_and_a_terminal_obeys_nothing(
    name: str, reason: str, columns: int, rows: int, partitions: int, is_silent: bool
) -> None:
    facts = document(
        *(partition(number, last=9, applied=0, table=name, state="stopped", reason=reason)
          for number in range(partitions)),
        ready=False, first=reason, troubles=[trouble(reason)], name=name,
        nodes=[{"node": name, "alive": False, "reason": reason}],
    )  # fmt: skip
    lines = page_of(facts, columns=columns, rows=rows, silence=Silence(1.0, reason) if is_silent else None)
    assert 1 <= len(lines) <= rows
    for line in lines:
        assert len(line.text) <= columns
        assert line.text.isprintable(), repr(line.text)


@pytest.mark.parametrize("rows", [5, 6, 8])
def test_the_first_trouble_has_room_on_a_small_terminal(rows: int) -> None:
    facts = document(partition(0, last=9, applied=9), ready=False, first="restart it", troubles=[trouble("it stopped")])
    texts = [line.text for line in page_of(facts, rows=rows)]
    assert texts[1:3] == ["NOT READY: it stopped", "do first: restart it"]
