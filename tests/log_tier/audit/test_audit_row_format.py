"""The bytes of a row of the audit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.set_clock import HandClock

from log_tier.audit.audit_event import AuditEvent
from log_tier.audit.audit_queue import AuditQueue
from log_tier.audit.audit_row import AuditRow
from log_tier.audit.row_format import first_key_at, parse_row, row_key, row_value
from log_tier.model.errors import UnknownFormat


def row_of(event: AuditEvent, *, seconds: float = 1764104400.123) -> AuditRow:
    clock = HandClock()
    clock.seconds = seconds
    queue = AuditQueue(clock)
    queue.add(event)
    queue.end()
    return queue.ready(1)[0]


def test_the_bytes_of_a_row() -> None:
    """As docs/FORMATS.md shows them."""
    event = AuditEvent(
        "read", "refused", "alice", "token", "0a1b2c3d4e5f", "10.0.0.7", "KV/Get", "orders", "us:1", "why", 17
    )
    row = row_of(event)
    assert row_key(row, "n1", "3fa9c2d1") == b"1764104400123/n1/3fa9c2d1/00000001"
    assert row_value(row, "n1") == (
        b'{"v":1,"time_ms":1764104400123,"until_ms":1764104400123,"count":1,"server":"n1","kind":"read",'
        b'"result":"refused","user":"alice","proof":"token","credential":"0a1b2c3d4e5f","address":"10.0.0.7",'
        b'"action":"KV/Get","table":"orders","key":"us:1","detail":"why","version":17,"offset":-1,"key_text":""}'
    )


def test_keys_of_fields_have_a_text_and_rows_of_before_have_none() -> None:
    row = row_of(AuditEvent("read", "refused", "alice", table="flights", key="base64:AlVBABUF"))
    value = row_value(row, "n1", '["UA",5]')
    assert parse_row(b"k", value)["key_text"] == '["UA",5]'
    assert parse_row(b"k", value.replace(b',"key_text":"[\\"UA\\",5]"', b""))["key_text"] == ""
    assert len(parse_row(b"k", row_value(row, "n1", "x" * 4000))["key_text"]) == 200


@given(st.text(max_size=50), st.integers(-1, 2**60))
def test_a_row_is_read_as_it_was_written(text: str, offset: int) -> None:
    event = AuditEvent("admin", "done", text, detail=text, offset=offset)
    fields = parse_row(b"k", row_value(row_of(event), text))
    assert (fields["server"], fields["user"], fields["offset"]) == (text, text, offset)
    assert list(fields)[:4] == ["time_ms", "until_ms", "count", "server"]


@pytest.mark.parametrize(
    "value", [pytest.param(b"[" * 100_000, id="brackets"), b"", b"{", b"[]", b"{}", b'{"v":2}', b'{"v":1}', b"\xff"]
)
def test_what_is_no_row_is_named(value: bytes) -> None:
    with pytest.raises(UnknownFormat):
        parse_row(b"key", value)


def test_keys_sort_by_time() -> None:
    keys = [row_key(row_of(AuditEvent("login", "allowed"), seconds=s), "n1", "p") for s in (1.0, 9.0, 10.0, 1e9, 9e9)]
    assert keys == sorted(keys)
    assert first_key_at(9000) <= keys[1] < first_key_at(9001) <= keys[2]
    assert first_key_at(-5) == first_key_at(0)
    assert json.loads(row_value(row_of(AuditEvent("login", "allowed"), seconds=1.0), "n1"))["time_ms"] == 1000
