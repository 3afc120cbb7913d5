"""The document: what it says, and what of it each user is shown."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from typing import Any

from kit.flight_rows import flight_key

from log_tier.model.identifiers import Offset, TableId, partition_id
from log_tier.slow_calls.slow_call import NO_SUBJECT, CallSubject, SlowCall
from log_tier.slow_calls.slow_document import slow_document
from log_tier.slow_calls.slow_ring import SlowRing
from log_tier.trust.grants import Grant
from log_tier.trust.rights import Rights


def ring_of(*subjects: tuple[CallSubject, str]) -> SlowRing:
    ring = SlowRing()
    for subject, user in subjects:
        assert ring.admits(0.0)
        ring.add(
            SlowCall(
                number=ring.next_number,
                ended_ms=1_700_000_000_000,
                took_s=0.5,
                what="KV/Put",
                protocol="grpc",
                outcome="done",
                subject=subject,
                offset=Offset(7),
                user=user,
                peer="10.0.0.9:4000",
                parts={"queued": None, "synced": 0.4},
            )
        )
    return ring


def on(table: str, key: bytes = b"key") -> CallSubject:
    return CallSubject(table, [partition_id(TableId(table), 3)], key)


def document(ring: SlowRing, *grants: str, user: str = "", count: int = 0) -> dict[str, Any]:
    rights = Rights([Grant.parse(grant) for grant in grants]) if user else None
    found: dict[str, Any] = json.loads(
        slow_document(ring, threshold_ms=100, now_ms=5, rights=rights, user=user, count=count)
    )
    return found


def test_the_whole_document() -> None:
    assert document(ring_of((on("flights"), "ann"))) == {
        "format": 1,
        "now_ms": 5,
        "threshold_ms": 100,
        "kept_max": 128,
        "total": 1,
        "left_out": 0,
        "calls": [
            {
                "number": 0,
                "ended_ms": 1_700_000_000_000,
                "duration_ms": 500.0,
                "call": "KV/Put",
                "protocol": "grpc",
                "outcome": "done",
                "table": "flights",
                "partition": 3,
                "key": "key",
                "key_text": "",
                "items": 1,
                "offset": 7,
                "user": "ann",
                "peer": "10.0.0.9:4000",
                "parts": {"queued_ms": None, "synced_ms": 400.0},
            }
        ],
    }


def test_newest_first_and_at_most_so_many() -> None:
    ring = ring_of(*((on(name), "") for name in ("a", "b", "c")))
    assert [each["table"] for each in document(ring)["calls"]] == ["c", "b", "a"]
    assert [each["table"] for each in document(ring, count=2)["calls"]] == ["c", "b"]


def test_a_user_sees_the_tables_that_are_shown_to_it_and_keys_that_it_may_read() -> None:
    ring = ring_of(
        (on("open", b"public:1"), "bob"),
        (on("open", b"private:1"), "bob"),
        (on("secret"), "bob"),
        (on("written"), "ann"),
        (NO_SUBJECT, "bob"),
        (NO_SUBJECT, "ann"),
    )
    found = document(ring, "read open --key public:", "write written", user="ann")
    assert (found["total"], found["left_out"]) == (None, None)
    shown = [(each["table"], each["key"], each["user"], each["peer"]) for each in found["calls"]]
    assert shown == [
        (None, None, "ann", "10.0.0.9:4000"),
        ("written", None, "ann", "10.0.0.9:4000"),
        ("open", None, None, None),
        ("open", "public:1", None, None),
    ]
    assert "secret" not in json.dumps(found)


def test_a_key_of_fields_is_shown_as_them_to_who_may_read_it() -> None:
    key = flight_key("UA", 1545)
    ring = ring_of((on("flights", key), "bob"))
    (call,) = ring.newest()
    ring.add(replace(call, number=ring.next_number, key_text='["UA",1545]'))
    text = "base64:" + b64encode(key).decode()
    assert [(each["key"], each["key_text"]) for each in document(ring)["calls"]] == [(text, '["UA",1545]'), (text, "")]
    shown = document(ring, "write flights", user="ann")["calls"]
    assert [(each["key"], each["key_text"]) for each in shown] == [(None, ""), (None, "")]


def test_who_may_see_nothing_sees_nothing() -> None:
    ring = ring_of((on("secret"), "bob"), (NO_SUBJECT, ""))
    assert document(ring, user="eve")["calls"] == []
    nobody = json.loads(slow_document(ring, threshold_ms=100, now_ms=5, rights=Rights([]), user=""))
    assert nobody["calls"] == [], "the calls of nobody are not nobody's to see"


def test_hostile_keys_are_text_of_one_line() -> None:
    keys = (b"\x1b[2J", b"a\nb", b"\xff\xfe", "\u202eevil".encode(), b"<script>")
    ring = ring_of(*((on("flights", key), "") for key in keys))
    text = slow_document(ring, threshold_ms=100, now_ms=5)
    assert text.isascii()
    assert b"\n" not in text
    shown = [each["key"] for each in json.loads(text)["calls"]]
    assert all(key.isprintable() and key.isascii() for key in shown)
    assert shown[0] == "<script>"
