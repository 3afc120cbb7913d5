"""The commands of a pipeline in columns: what many of one kind do, on as many keys, by a few calls into C. Pure.

Each function here is an `Each` and does what its command does, one after the other:

    commands    INCR a, INCR b, INCR a, …            one kind, one number of words
    columns     [(a, b, a, …)]                        the keys, then each further word
    replies     [1, 1, 2, …]                          or None: one of them is unusual

A key that comes again is looked up once, and what its first command has made of it is followed in a dict.

It knows the usual case: numbers that are numbers, like options, no expiry in the past. Whatever else comes returns None
before anything was changed, and the commands are executed one by one, by the functions that say what they mean
(`strings.py`, `counters.py`, `keys.py`). So these here may decline whatever they like, and must agree in the rest;
`tests/router/endpoints/resp/data/test_command_runs.py` compares both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Final, TypeVar

from log_tier.model.identifiers import NOTHING
from log_tier.model.record import VALUE_BYTES_MAX
from router.endpoints.resp.commands.keys import due_ms
from router.endpoints.resp.data.key_views import Each, Overlay, PendingVersion, pending_versions
from router.endpoints.resp.wire.arguments import strict_integer
from router.endpoints.resp.wire.replies import OK_STATUS, Problem, Simple
from serving_tier.fold.entry import NEVER
from serving_tier.fold.numbers import INTEGER_MAX, INTEGER_MIN

__all__ = ["EACH"]

Column = Sequence[bytes]
_Of = TypeVar("_Of")


def _add(view: Overlay, keys: Column, change: int) -> list[int] | None:
    distinct = list(dict.fromkeys(keys))
    entries = view.get_each(distinct)
    before = [0 if entry is None else strict_integer(entry.value) for entry in entries]
    if None in before:
        return None
    after = [number + change for number in before if number is not None]
    expiries = [NEVER if entry is None else entry.expires_at_ms for entry in entries]
    if len(distinct) < len(keys):
        after = _counted(keys, dict(zip(distinct, after, strict=True)), change)
        expiries = _of_each(keys, distinct, expiries)
    if max(after) > INTEGER_MAX or min(after) < INTEGER_MIN:
        return None
    view.put_each(keys, [b"%d" % number for number in after], expiries)
    return after


def _counted(keys: Column, following: dict[bytes, int], change: int) -> list[int]:
    """The numbers after each command. `following`: each key's after its first one."""
    after = []
    for key in keys:
        after.append(following[key])
        following[key] += change
    return after


def _of_each(keys: Column, distinct: Column, column: Sequence[_Of]) -> list[_Of]:
    """What a column has of the distinct keys, for each key."""
    return list(map(dict(zip(distinct, column, strict=True)).__getitem__, keys))


def _incr(view: Overlay, columns: Sequence[Column]) -> list[int] | None:
    return _add(view, columns[0], 1)


def _decr(view: Overlay, columns: Sequence[Column]) -> list[int] | None:
    return _add(view, columns[0], -1)


def _delete(view: Overlay, columns: Sequence[Column]) -> list[int]:
    keys = columns[0]
    distinct = list(dict.fromkeys(keys))
    there = view.is_there_each(distinct)
    deleted = list(compress(distinct, there))
    view.remove_each(deleted)
    return list(map(int, there)) if len(distinct) == len(keys) else list(map(int, _firsts(keys, deleted)))


def _firsts(keys: Column, changed: Column) -> list[bool]:
    """Is this the first command on one of the keys that change?"""
    left = set(changed)
    firsts = []
    for key in keys:
        firsts.append(key in left)
        left.discard(key)
    return firsts


def _expire_at(view: Overlay, columns: Sequence[Column], *, seconds: bool, start_ms: int) -> list[int] | None:
    if len(columns) != 2 or len(set(columns[1])) != 1:
        return None
    try:
        time_ms = due_ms(columns[1][0], seconds=seconds, start_ms=start_ms, command="expire")
    except Problem:
        return None
    if time_ms <= view.now_ms:
        return None
    keys = columns[0]
    distinct = list(dict.fromkeys(keys))
    entries = view.get_each(distinct)
    if len(distinct) < len(keys):
        entries = _of_each(keys, distinct, entries)
    values = [entry.value for entry in entries if entry is not None]
    there = [entry is not None for entry in entries]
    view.put_each(list(compress(keys, there)), values, [time_ms] * len(values))
    return list(map(int, there))


def _expire(view: Overlay, columns: Sequence[Column]) -> list[int] | None:
    return _expire_at(view, columns, seconds=True, start_ms=view.now_ms)


def _pexpire(view: Overlay, columns: Sequence[Column]) -> list[int] | None:
    return _expire_at(view, columns, seconds=False, start_ms=view.now_ms)


def _set(view: Overlay, columns: Sequence[Column]) -> list[Simple | None] | None:
    """SET key value, and SET key value NX."""
    keys, values, *options = columns
    if not options:
        view.put_each(keys, values, [NEVER] * len(keys))
        return [OK_STATUS] * len(keys)
    if len(options) == 1 and set(options[0]) in _NX:
        return [OK_STATUS if absent else None for absent in _put_absent(view, keys, values)]
    return None


def _setv(view: Overlay, columns: Sequence[Column]) -> list[PendingVersion] | None:
    """DURAMEN.SETV key value version, where every key has the version."""
    if len(columns) != 3 or len(set(columns[0])) < len(columns[0]):
        return None
    keys, values, words = columns
    asked = [number for number in map(strict_integer, words) if number is not None and number >= NOTHING]
    if len(asked) < len(keys):
        return None  # some are no versions: their commands do not look at their keys
    if asked != [NOTHING if entry is None else entry.version for entry in view.get_each(keys)]:
        return None
    first = len(view.keys)
    view.put_each(keys, values, [NEVER] * len(keys))
    return pending_versions(first, len(keys))


def _setnx(view: Overlay, columns: Sequence[Column]) -> list[int]:
    return list(map(int, _put_absent(view, *columns)))


def _put_absent(view: Overlay, keys: Column, values: Column) -> list[bool]:
    distinct = list(dict.fromkeys(keys))
    absent = [not there for there in view.is_there_each(distinct)]
    if len(distinct) < len(keys):
        absent = _firsts(keys, list(compress(distinct, absent)))
    put = keys if all(absent) else list(compress(keys, absent))
    view.put_each(put, values if put is keys else list(compress(values, absent)), [NEVER] * len(put))
    return absent


def _append(view: Overlay, columns: Sequence[Column]) -> list[int] | None:
    keys, values = columns
    distinct = list(dict.fromkeys(keys))
    before = sum(len(entry.value) for entry in view.get_each(distinct) if entry is not None)
    if before > _APPENDED_TO_BYTES_MAX or sum(map(len, values)) > VALUE_BYTES_MAX - before:
        return None
    return view.append_each(keys, values)


_APPENDED_TO_BYTES_MAX: Final = 1 << 20
"""The values that one run of APPENDs copies: a millisecond."""

_NX: Final = ({b"NX"}, {b"nx"})

EACH: Final[Mapping[str, Each]] = {
    "append": _append,
    "decr": _decr,
    "duramen.setv": _setv,
    "del": _delete,
    "expire": _expire,
    "incr": _incr,
    "pexpire": _pexpire,
    "set": _set,
    "setnx": _setnx,
    "unlink": _delete,
}
"""The column functions by the command's name."""
