"""The commands on keys, whatever they hold: DEL, EXISTS, TYPE, and when keys expire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from router.endpoints.resp.command_spec import CommandSpec, change_command, read_command
from router.endpoints.resp.data.key_views import View
from router.endpoints.resp.wire.arguments import check_options, expiry_problem, integer, shown, text_of
from router.endpoints.resp.wire.replies import Problem, Simple
from serving_tier.fold.entry import NEVER
from serving_tier.fold.numbers import INTEGER_MAX, INTEGER_MIN

__all__ = [
    "SPECS",
    "delete",
    "due_ms",
    "exists",
    "expire",
    "expireat",
    "expiretime",
    "persist",
    "pexpire",
    "pexpireat",
    "pexpiretime",
    "pttl",
    "ttl",
    "type_",
]

# Keys that one commit deletes; more are deleted by several, as nobody sees them together.
_DELETED_AT_ONCE: Final = 1024

_ABSENT: Final = -2
_NEVER: Final = -1


def delete(view: View, args: Sequence[bytes]) -> int:
    """DEL key [key …], UNLINK key [key …]"""
    deleted = 0
    for key in args:
        if view.get(key) is not None:
            view.remove(key)
            deleted += 1
    return deleted


def exists(view: View, args: Sequence[bytes]) -> int:
    """EXISTS key [key …]: how many of them are there; one that is named twice counts twice."""
    return sum(view.get(key) is not None for key in args)


def type_(view: View, args: Sequence[bytes]) -> Simple:
    """TYPE key"""
    return Simple("none" if view.get(args[0]) is None else "string")


def pttl(view: View, args: Sequence[bytes]) -> int:
    """PTTL key"""
    time_ms = pexpiretime(view, args)
    return time_ms if time_ms < 0 else time_ms - view.now_ms


def ttl(view: View, args: Sequence[bytes]) -> int:
    """TTL key: rounded to the nearest second, as Redis does."""
    left_ms = pttl(view, args)
    return left_ms if left_ms < 0 else (left_ms + 500) // 1000


def pexpiretime(view: View, args: Sequence[bytes]) -> int:
    """PEXPIRETIME key"""
    entry = view.get(args[0])
    if entry is None:
        return _ABSENT
    return entry.expires_at_ms if entry.expires_at_ms != NEVER else _NEVER


def expiretime(view: View, args: Sequence[bytes]) -> int:
    """EXPIRETIME key"""
    time_ms = pexpiretime(view, args)
    return time_ms if time_ms < 0 else (time_ms + 500) // 1000


def persist(view: View, args: Sequence[bytes]) -> int:
    """PERSIST key"""
    entry = view.get(args[0])
    if entry is None or entry.expires_at_ms == NEVER:
        return 0
    view.put(args[0], entry.value)
    return 1


def expire(view: View, args: Sequence[bytes]) -> int:
    """EXPIRE key seconds [NX | XX | GT | LT]"""
    return _expire(view, args, seconds=True, start_ms=view.now_ms, command="expire")


def pexpire(view: View, args: Sequence[bytes]) -> int:
    """PEXPIRE key milliseconds [NX | XX | GT | LT]"""
    return _expire(view, args, seconds=False, start_ms=view.now_ms, command="pexpire")


def expireat(view: View, args: Sequence[bytes]) -> int:
    """EXPIREAT key unix-time [NX | XX | GT | LT]"""
    return _expire(view, args, seconds=True, start_ms=0, command="expireat")


def pexpireat(view: View, args: Sequence[bytes]) -> int:
    """PEXPIREAT key unix-time-in-ms [NX | XX | GT | LT]"""
    return _expire(view, args, seconds=False, start_ms=0, command="pexpireat")


def _expire(view: View, args: Sequence[bytes], *, seconds: bool, start_ms: int, command: str) -> int:
    key, time, *options = args
    only = _only(options)
    time_ms = due_ms(time, seconds=seconds, start_ms=start_ms, command=command)
    entry = view.get(key)
    if entry is None:
        return 0
    now = entry.expires_at_ms
    if (
        ("NX" in only and now != NEVER)
        or ("XX" in only and now == NEVER)
        or ("GT" in only and (now == NEVER or time_ms <= now))
        or ("LT" in only and now != NEVER and time_ms >= now)
    ):
        return 0
    if time_ms <= view.now_ms:
        view.remove(key)
    else:
        view.put(key, entry.value, time_ms)
    return 1


def due_ms(time: bytes, *, seconds: bool, start_ms: int, command: str) -> int:
    """The time in ms since 1970 that EXPIRE and its like name, past or future. Raises `Problem`."""
    time_ms = integer(time)
    if seconds:
        if not -(-INTEGER_MIN // 1000) <= time_ms <= INTEGER_MAX // 1000:
            raise expiry_problem(command)
        time_ms *= 1000
    if time_ms > INTEGER_MAX - start_ms:
        raise expiry_problem(command)
    return time_ms + start_ms


def _only(options: Sequence[bytes]) -> set[str]:
    check_options(options)
    only: set[str] = set()
    for option in options:
        name = text_of(option).upper()
        if name not in ("NX", "XX", "GT", "LT"):
            raise Problem(f"ERR Unsupported option {shown(option)}")
        only.add(name)
    if "NX" in only and len(only) > 1:
        raise Problem("ERR NX and XX, GT or LT options at the same time are not compatible")
    if {"GT", "LT"} <= only:
        raise Problem("ERR GT and LT options at the same time are not compatible")
    return only


SPECS: Final = (
    read_command("exists", -2, exists, "Counts those of the keys that are there.", last=-1),
    read_command("touch", -2, exists, "Counts those of the keys that are there.", last=-1),
    read_command("type", 2, type_, "Returns the type of a value: always string."),
    read_command("ttl", 2, ttl, "Returns the seconds until a key expires."),
    read_command("pttl", 2, pttl, "Returns the milliseconds until a key expires."),
    read_command("expiretime", 2, expiretime, "Returns when a key expires, in seconds since 1970."),
    read_command("pexpiretime", 2, pexpiretime, "Returns when a key expires, in ms since 1970."),
    *(
        CommandSpec(
            name, -2, frozenset({"write"}), "change", delete, 1, -1, 1, None, True, _DELETED_AT_ONCE, "Deletes keys."
        )
        for name in ("del", "unlink")
    ),
    change_command("persist", 2, persist, "Lets a key never expire."),
    change_command("expire", -3, expire, "Lets a key expire in so many seconds."),
    change_command("pexpire", -3, pexpire, "Lets a key expire in so many milliseconds."),
    change_command("expireat", -3, expireat, "Lets a key expire at a time in seconds."),
    change_command("pexpireat", -3, pexpireat, "Lets a key expire at a time in milliseconds."),
)
"""The commands of this module."""
