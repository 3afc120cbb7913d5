"""The document of the slow calls, for one caller. Pure. docs/FORMATS.md describes its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from log_tier.slow_calls.slow_call import SlowCall
from log_tier.slow_calls.slow_ring import SlowRing
from log_tier.trust.grants import Right, key_prefix_text
from log_tier.trust.rights import Rights

__all__ = ["SLOW_FORMAT", "is_own_call", "may_read_key", "parts_in_ms", "shown_calls", "slow_document"]

SLOW_FORMAT: Final = 1


def shown_calls(ring: SlowRing, rights: Rights | None, user: str) -> Iterator[SlowCall]:
    """The calls that are shown to a user, newest first. `rights`: None: all are."""
    for call in ring.newest():
        table = call.subject.table
        if rights is None or (_is_own(call, user) if table is None else rights.sees(table)):
            yield call


def is_own_call(call: SlowCall, rights: Rights | None, user: str) -> bool:
    """May a user be shown who made a call: itself, or it administers the cluster?"""
    return rights is None or _is_own(call, user)


def may_read_key(call: SlowCall, rights: Rights | None) -> bool:
    """May somebody with these rights be shown a call's key?"""
    table, key = call.subject.table, call.subject.key
    return rights is None or (table is not None and key is not None and rights.may(Right.READ, table, key))


def _is_own(call: SlowCall, user: str) -> bool:
    return bool(user) and call.user == user


def slow_document(
    ring: SlowRing, *, threshold_ms: int, now_ms: int, rights: Rights | None = None, user: str = "", count: int = 0
) -> bytes:
    """One line of JSON with the newest calls first. `count`: at most so many; 0: all. What a user with `rights` may not
    know is null.
    """
    calls = [_call(each, rights, user) for each in shown_calls(ring, rights, user)]
    document = {
        "format": SLOW_FORMAT,
        "now_ms": now_ms,
        "threshold_ms": threshold_ms,
        "kept_max": ring.kept_max,
        "total": ring.total if rights is None else None,
        "left_out": ring.left_out if rights is None else None,
        "calls": calls[:count] if count else calls,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _call(call: SlowCall, rights: Rights | None, user: str) -> dict[str, Any]:
    subject = call.subject
    key, table = subject.key, subject.table
    is_own, may_read = is_own_call(call, rights, user), may_read_key(call, rights)
    return {
        "number": call.number,
        "ended_ms": call.ended_ms,
        "duration_ms": _ms(call.took_s),
        "call": call.what,
        "protocol": call.protocol,
        "outcome": call.outcome,
        "table": table,
        "partition": call.partition,
        "key": key_prefix_text(key) if key is not None and may_read else None,
        "key_text": call.key_text if may_read else "",
        "items": subject.items,
        "offset": call.offset,
        "user": call.user if is_own else None,
        "peer": call.peer if is_own else None,
        "parts": parts_in_ms(call),
    }


def parts_in_ms(call: SlowCall) -> Mapping[str, float | None]:
    """`queued_ms` and the others. Absent: the call has no such part; None: this server does not know."""
    return {f"{name}_ms": None if spent_s is None else _ms(spent_s) for name, spent_s in call.parts.items()}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
