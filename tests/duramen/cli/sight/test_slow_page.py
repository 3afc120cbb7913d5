"""The lines of `duramen slow`: what they say, and that nothing that a server sends is obeyed by a terminal."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from duramen.cli.sight.slow_page import slow_page

AT_MS = int(datetime(2026, 3, 1, 2, 14, 7).timestamp() * 1000)


def slow_call(**fields: Any) -> dict[str, Any]:
    return {
        "number": 0, "ended_ms": AT_MS, "duration_ms": 512.25, "call": "KV/Put", "protocol": "grpc", "outcome": "done",
        "table": "flights", "partition": 3, "key": "UA1545", "items": 1, "offset": 7, "user": "ann",
        "peer": "10.0.0.9:4000", "parts": {"queued_ms": 3.25, "synced_ms": 498.0, "rest_ms": 11.0}, **fields,
    }  # fmt: skip


def slow_document(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "format": 1, "now_ms": AT_MS, "threshold_ms": 100, "kept_max": 128, "total": len(calls), "left_out": 0,
        "calls": list(calls), **fields,
    }  # fmt: skip


def test_a_key_of_fields_is_shown_as_them() -> None:
    (_, _, _, line) = slow_page(slow_document(slow_call(key="base64:AlVBABUF", key_text='["UA",5]')))
    assert '  ["UA",5]  ' in line
    assert "base64" not in line


def test_a_line_for_each_call() -> None:
    calls = (
        slow_call(),
        slow_call(
            call="KV/Get", table="a-table-with-a-long-name", partition=None, key=None, user=None, peer=None,
            duration_ms=12_345.0, outcome="failed", parts={"waited_ms": 12_300.0, "read_ms": None},
        ),
        slow_call(call="Tables/Create", table=None, partition=None, key=None, user="", parts={}),
    )  # fmt: skip
    assert slow_page(slow_document(*calls, total=900, left_out=4)) == [
        "3 calls of 100 ms or longer, newest first; there were 900 since the server began, "
        "4 of them too many at once to be kept",
        "",
        "when             duration  call             table                     key     user  from           "
        "where the time went",
        "03-01 02:14:07     512 ms  KV/Put           flights/3                 UA1545  ann   10.0.0.9:4000  "
        "synced 498 ms, rest 11 ms, queued 3.2 ms",
        "03-01 02:14:07  12,345 ms  KV/Get (failed)  a-table-with-a-long-name  -       -     -              "
        "waited 12,300 ms, read not known here",
        "03-01 02:14:07     512 ms  Tables/Create    -                         -       -     10.0.0.9:4000  -",
    ]


def test_one_line_where_there_is_none() -> None:
    assert slow_page(slow_document()) == ["no call that is shown to you has taken 100 ms or longer"]
    assert slow_page(slow_document(threshold_ms=0)) == ["this server keeps no slow calls: its slow_call_ms is 0"]


@given(st.dictionaries(st.sampled_from(["call", "table", "key", "user", "peer", "outcome"]), st.text()))
def test_what_a_server_sends_stays_text(names: dict[str, str]) -> None:
    lines = slow_page(slow_document(slow_call(**names), slow_call(key="\x1b[2J\nevil", parts={"\x1b[31m_ms": 1.0})))
    assert len(lines) == 5
    assert all(line.isprintable() for line in lines)
    assert all(len(line) < 500 for line in lines), "and takes no more room than it may"
