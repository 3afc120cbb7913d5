"""The commands on values: GET, SET and their relatives. Functions of a view; replies and errors are Redis' own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from log_tier.model.record import VALUE_BYTES_MAX, Expiry, Operation, attribute_of
from router.endpoints.resp.command_spec import blind_command, change_command, read_command
from router.endpoints.resp.data.key_views import DraftRecord, View
from router.endpoints.resp.wire.arguments import SYNTAX, check_options, expiry_time, integer
from router.endpoints.resp.wire.error_replies import wrong_arity
from router.endpoints.resp.wire.limits import MGET_BYTES_MAX
from router.endpoints.resp.wire.replies import OK_STATUS, Problem, Simple
from serving_tier.fold.entry import NEVER

__all__ = [
    "SPECS",
    "SetOptions",
    "append",
    "get",
    "getdel",
    "getex",
    "getrange",
    "getset",
    "mget",
    "mset",
    "msetnx",
    "psetex",
    "set_",
    "set_options",
    "setex",
    "setnx",
    "setrange",
    "strlen",
]

_TOO_LONG: Final = Problem(f"ERR string exceeds maximum allowed size of {VALUE_BYTES_MAX} bytes")


class SetOptions(NamedTuple):
    """The options of SET and GETEX."""

    expires_at_ms: int = NEVER
    condition: bytes = b""
    """`NX` or `XX`."""
    get: bool = False
    keep: bool = False
    """KEEPTTL."""
    persist: bool = False


_TIMES: Final = {b"EX": (True, False), b"PX": (False, False), b"EXAT": (True, True), b"PXAT": (False, True)}


def set_options(options: Sequence[bytes], now_ms: int, *, command: str = "set") -> SetOptions:
    """Read the options after the value of SET, or after the key of GETEX. Raises `Problem`."""
    check_options(options)
    condition, get_it, keep, persist = b"", False, False, False
    time: tuple[bytes, bytes] | None = None
    setting = command == "set"
    at = 0
    while at < len(options):
        name = options[at].upper()
        at += 1
        if setting and name in (b"NX", b"XX") and condition in (b"", name):
            condition = name
        elif setting and name == b"GET":
            get_it = True
        elif setting and name == b"KEEPTTL" and time is None:
            keep = True
        elif not setting and name == b"PERSIST" and time is None:
            persist = True
        elif name in _TIMES and not keep and not persist and at < len(options) and (time is None or time[0] == name):
            time = (name, options[at])
            at += 1
        else:
            raise SYNTAX
    expires_at_ms = NEVER
    if time is not None:
        seconds, absolute = _TIMES[time[0]]
        expires_at_ms = expiry_time(time[1], seconds=seconds, absolute=absolute, now_ms=now_ms, command=command)
    return SetOptions(expires_at_ms, condition, get_it, keep, persist)


def get(view: View, args: Sequence[bytes]) -> bytes | None:
    """GET key"""
    entry = view.get(args[0])
    return None if entry is None else entry.value


def mget(view: View, args: Sequence[bytes]) -> list[bytes | None]:
    """MGET key [key …]"""
    values = [None if entry is None else entry.value for entry in map(view.get, args)]
    if sum(map(len, filter(None, values))) > MGET_BYTES_MAX:
        raise Problem(f"ERR the values of these keys have more than {MGET_BYTES_MAX} bytes: ask for fewer at once")
    return values


def set_(view: View, args: Sequence[bytes]) -> Simple | bytes | None:
    """SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]"""
    key, value, *rest = args
    if not rest:
        view.put(key, value)
        return OK_STATUS
    options = set_options(rest, view.now_ms)
    if not (options.condition or options.get or options.keep):
        # What was there is no matter, and is not looked at: the record needs no condition.
        view.put(key, value, options.expires_at_ms)
        return OK_STATUS
    entry = view.get(key)
    before = None if entry is None else entry.value
    if (options.condition == b"NX" and entry is not None) or (options.condition == b"XX" and entry is None):
        return before if options.get else None
    expires_at_ms = entry.expires_at_ms if options.keep and entry is not None else options.expires_at_ms
    view.put(key, value, expires_at_ms)
    return before if options.get else OK_STATUS


def setnx(view: View, args: Sequence[bytes]) -> int:
    """SETNX key value"""
    if view.get(args[0]) is not None:
        return 0
    view.put(args[0], args[1])
    return 1


def setex(view: View, args: Sequence[bytes]) -> Simple:
    """SETEX key seconds value"""
    key, time, value = args
    view.put(key, value, expiry_time(time, seconds=True, absolute=False, now_ms=view.now_ms, command="setex"))
    return OK_STATUS


def psetex(view: View, args: Sequence[bytes]) -> Simple:
    """PSETEX key milliseconds value"""
    key, time, value = args
    view.put(key, value, expiry_time(time, seconds=False, absolute=False, now_ms=view.now_ms, command="psetex"))
    return OK_STATUS


def getset(view: View, args: Sequence[bytes]) -> bytes | None:
    """GETSET key value"""
    before = get(view, args)
    view.put(args[0], args[1])
    return before


def getdel(view: View, args: Sequence[bytes]) -> bytes | None:
    """GETDEL key"""
    before = get(view, args)
    if before is not None:
        view.remove(args[0])
    return before


def getex(view: View, args: Sequence[bytes]) -> bytes | None:
    """GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]"""
    key, *rest = args
    check_options(rest)
    entry = view.get(key)
    if entry is None:
        # Redis looks at the words before it looks for the key, and at the number after it.
        set_options(
            [b"1" if at and rest[at - 1].upper() in _TIMES else word for at, word in enumerate(rest)],
            0,
            command="getex",
        )
        return None
    options = set_options(rest, view.now_ms, command="getex")
    if options.expires_at_ms != NEVER or (options.persist and entry.expires_at_ms != NEVER):
        view.put(key, entry.value, options.expires_at_ms)
    return entry.value


def mset(view: View, args: Sequence[bytes]) -> Simple:
    """MSET key value [key value …]"""
    _check_pairs(args, "mset")
    for key, value in zip(args[::2], args[1::2], strict=True):
        view.put(key, value)
    return OK_STATUS


def msetnx(view: View, args: Sequence[bytes]) -> int:
    """MSETNX key value [key value …]"""
    _check_pairs(args, "msetnx")
    if any(view.get(key) is not None for key in args[::2]):
        return 0
    mset(view, args)
    return 1


def _check_pairs(args: Sequence[bytes], command: str) -> None:
    if len(args) % 2:
        raise Problem(f"ERR wrong number of arguments for '{command}' command")


def append(view: View, args: Sequence[bytes]) -> int:
    """APPEND key value"""
    key, value = args
    entry = view.get(key)
    if entry is not None and len(entry.value) + len(value) > VALUE_BYTES_MAX:
        raise _TOO_LONG
    return view.append(key, value)


def strlen(view: View, args: Sequence[bytes]) -> int:
    """STRLEN key"""
    return len(get(view, args) or b"")


def getrange(view: View, args: Sequence[bytes]) -> bytes:
    """GETRANGE key start end: both inclusive, negative ones from the end."""
    first, last = integer(args[1]), integer(args[2])
    value = get(view, args) or b""
    size = len(value)
    if first < 0 and last < 0 and first > last:
        return b""
    first = max(0, size + first if first < 0 else first)
    last = max(0, size + last if last < 0 else last)
    return value[first : last + 1]


def setrange(view: View, args: Sequence[bytes]) -> int:
    """SETRANGE key offset value"""
    key, value = args[0], args[2]
    at = integer(args[1])
    if at < 0:
        raise Problem("ERR offset is out of range")
    entry = view.get(key)
    before = b"" if entry is None else entry.value
    if not value:
        return len(before)
    if at + len(value) > VALUE_BYTES_MAX:
        raise _TOO_LONG
    after = before[:at].ljust(at, b"\0") + value + before[at + len(value) :]
    view.put(key, after, NEVER if entry is None else entry.expires_at_ms)
    return len(after)


# --- writes that need not read

_PUT_AT: Final = attribute_of(Operation.PUT, expiry=Expiry.AT)
_PUT_KEEP: Final = attribute_of(Operation.PUT, expiry=Expiry.KEEP)


def _blind_set(args: Sequence[bytes], now_ms: int) -> list[DraftRecord] | None:
    key, value, *rest = args
    options = set_options(rest, now_ms)
    if options.condition or options.get:
        return None
    if options.keep:
        return [DraftRecord(key, value, _PUT_KEEP)]
    if options.expires_at_ms == NEVER:
        return [DraftRecord(key, value)]
    return [DraftRecord(key, value, _PUT_AT, 0, options.expires_at_ms)]


def _blind_setex(args: Sequence[bytes], now_ms: int) -> list[DraftRecord]:
    key, time, value = args
    expires_at_ms = expiry_time(time, seconds=True, absolute=False, now_ms=now_ms, command="setex")
    return [DraftRecord(key, value, _PUT_AT, 0, expires_at_ms)]


def _blind_psetex(args: Sequence[bytes], now_ms: int) -> list[DraftRecord]:
    key, time, value = args
    expires_at_ms = expiry_time(time, seconds=False, absolute=False, now_ms=now_ms, command="psetex")
    return [DraftRecord(key, value, _PUT_AT, 0, expires_at_ms)]


def _blind_mset(args: Sequence[bytes], now_ms: int) -> list[DraftRecord]:
    if len(args) % 2:
        raise wrong_arity("mset")
    return [DraftRecord(key, value) for key, value in zip(args[::2], args[1::2], strict=True)]


SPECS: Final = (
    read_command("get", 2, get, "Returns the value of a key."),
    read_command("mget", -2, mget, "Returns the values of several keys.", last=-1),
    read_command("strlen", 2, strlen, "Returns the length of a value."),
    read_command("getrange", 4, getrange, "Returns a part of a value."),
    blind_command("set", -3, set_, _blind_set, "Sets the value of a key."),
    blind_command("setex", 4, setex, _blind_setex, "Sets a value that expires, in seconds."),
    blind_command("psetex", 4, psetex, _blind_psetex, "Sets a value that expires, in milliseconds."),
    blind_command("mset", -3, mset, _blind_mset, "Sets the values of several keys.", last=-1, step=2),
    change_command("msetnx", -3, msetnx, "Sets several keys if none is there.", last=-1, step=2, slow=True),
    change_command("setnx", 3, setnx, "Sets a value if the key is not there."),
    change_command("getset", 3, getset, "Sets a value and returns the one before."),
    change_command("getdel", 2, getdel, "Returns a value and deletes its key."),
    change_command("getex", -2, getex, "Returns a value and changes when it expires."),
    change_command("append", 3, append, "Appends to a value."),
    change_command("setrange", 4, setrange, "Overwrites a part of a value.", slow=True),
)
"""The commands of this module."""
