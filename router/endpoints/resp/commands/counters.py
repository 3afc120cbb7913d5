"""The commands on numbers: INCR and its relatives, by Redis' rules.

They differ from those of the log's own updates (`serving_tier.fold.numbers`): here `007` is no integer, a float is none
either, and INCRBYFLOAT computes with 80-bit long doubles. So these commands are not records of `ADD`: the sum is made
here, from what was read, and written under the condition that nobody wrote in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from router.endpoints.resp.command_spec import change_command
from router.endpoints.resp.data.key_views import View
from router.endpoints.resp.wire.arguments import integer, long_double, long_double_sum
from router.endpoints.resp.wire.replies import Problem
from serving_tier.fold.entry import NEVER
from serving_tier.fold.numbers import INTEGER_MAX, INTEGER_MIN

__all__ = ["SPECS", "decr", "decrby", "incr", "incrby", "incrbyfloat"]


def _add(view: View, key: bytes, change: int) -> int:
    entry = view.get(key)
    after = (0 if entry is None else integer(entry.value)) + change
    if not INTEGER_MIN <= after <= INTEGER_MAX:
        raise Problem("ERR increment or decrement would overflow")
    view.put(key, b"%d" % after, NEVER if entry is None else entry.expires_at_ms)
    return after


def incr(view: View, args: Sequence[bytes]) -> int:
    """INCR key"""
    return _add(view, args[0], 1)


def decr(view: View, args: Sequence[bytes]) -> int:
    """DECR key"""
    return _add(view, args[0], -1)


def incrby(view: View, args: Sequence[bytes]) -> int:
    """INCRBY key integer"""
    return _add(view, args[0], integer(args[1]))


def decrby(view: View, args: Sequence[bytes]) -> int:
    """DECRBY key integer"""
    change = integer(args[1])
    if change == INTEGER_MIN:
        raise Problem("ERR decrement would overflow")
    return _add(view, args[0], -change)


def incrbyfloat(view: View, args: Sequence[bytes]) -> bytes:
    """INCRBYFLOAT key number"""
    key = args[0]
    entry = view.get(key)
    before = long_double(b"0" if entry is None else entry.value)
    after = long_double_sum(before, long_double(args[1]))
    view.put(key, after, NEVER if entry is None else entry.expires_at_ms)
    return after


SPECS: Final = (
    change_command("incr", 2, incr, "Adds one."),
    change_command("incrby", 3, incrby, "Adds an integer."),
    change_command("decr", 2, decr, "Subtracts one."),
    change_command("decrby", 3, decrby, "Subtracts an integer."),
    change_command("incrbyfloat", 3, incrbyfloat, "Adds a decimal number."),
)
"""The commands of this module."""
