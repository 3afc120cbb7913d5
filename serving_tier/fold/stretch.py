"""Stretches: neighbouring records of one atomic group with the same operation, condition and expiry kind. Pure.

A pipeline of a thousand INCRs or DELs is a group of a thousand records with one attribute. To decide on each by itself
costs some 2 µs; this file decides on all of them by a few calls into C, 0.5 µs a record, most of it the lookups.

It knows two plain cases and no other:

- **Asking**: puts (with an expiry at a time, or with none), appends, deletes and no-ops, under the condition that each
  key is absent, or has a version. Each has a key of its own, nobody has changed the keys before in what is being
  folded, no entry that is there expires, and every condition holds.
- **Repeating**: puts and appends without a condition, as a pipeline writes them behind the first record of each key. A
  key may come several times, and earlier records may have changed it; no hint of an expiry has to be struck out.

Whatever else it meets, it returns None, and the records are decided on one by one (`decision.py`), which is what a
stretch means: for the plain cases the two agree in every byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from log_tier.model.batch import Columns
from log_tier.model.identifiers import Offset
from log_tier.model.record import (
    CONDITION_SHIFT,
    EXPIRY_SHIFT,
    GROUPED,
    VALUE_BYTES_MAX,
    Condition,
    Expiry,
    Operation,
    attribute_of,
)
from serving_tier.fold.entry import (
    NEVER,
    expiry_of,
    stored_entry,
    stored_expiring_puts,
    stored_puts,
    unexpiring_versions,
    value_of,
)

__all__ = ["STRETCH_MIN", "Stretch", "decide_stretch", "stretch_end"]

STRETCH_MIN: Final = 8
"""Fewer records than this are cheaper one by one."""

_PUT: Final = int(Operation.PUT)
_PUT_AT: Final = attribute_of(Operation.PUT, expiry=Expiry.AT)
_DELETE: Final = int(Operation.DELETE)
_NOOP: Final = int(Operation.NOOP)
_APPEND: Final = int(Operation.APPEND)
_CONDITION: Final = 3 << CONDITION_SHIFT
_ABSENT: Final = int(Condition.ABSENT) << CONDITION_SHIFT
_VERSION: Final = int(Condition.VERSION) << CONDITION_SHIFT

_KNOWN: Final = frozenset(
    operation | condition for operation in (_PUT, _PUT_AT, _APPEND, _DELETE, _NOOP) for condition in (_ABSENT, _VERSION)
)
"""The attributes of the plain case that asks."""

assert all(kind >> EXPIRY_SHIFT & 3 in (Expiry.NONE, Expiry.AT) for kind in _KNOWN), "an expiry that is no plain case"

_REPEATING: Final = frozenset({_PUT, _PUT_AT, _APPEND})
"""The attributes of the plain case that repeats."""


class Stretch(NamedTuple):
    """What the records of a stretch change, all of which are accepted."""

    entries: dict[bytes, bytes | None]
    """The new stored form of each key that changes; None: absent."""
    hints: dict[tuple[int, bytes], bool]
    """See `Effects.hints`."""
    results: Sequence[tuple[Offset, bytes]] = ()
    """See `Effects.results`."""


def stretch_end(attributes: Sequence[int], start: int, stop: int) -> int:
    """Where the records end that have the attribute of the one at `start`, which begins a group or continues it.

    At most `stop`. O(records), 30 ns each, a tenth of it where all are alike.
    """
    like = attributes[start] | GROUPED
    rest = attributes[start + 1 : stop]
    if rest.count(like) == len(rest):
        return stop
    return next((at for at in range(start + 1, stop) if attributes[at] != like), stop)


def decide_stretch(
    columns: Columns,
    start: int,
    stop: int,
    offset: int,
    changed: Sequence[Mapping[bytes, bytes | None]],
    stored: Callable[[bytes], bytes | None],
    log_time_ms: int,
) -> Stretch | None:
    """Decide on the records from `start` up to `stop`, which have one attribute; None where it is not the plain case.

    `offset`: of the first; the others follow without a gap. `changed`: what earlier records made of their keys.
    `stored`: what the index holds of a key.
    """
    assert columns.attributes is not None, "records without attributes are plain puts"
    kind = columns.attributes[start] & ~GROUPED
    if columns.deltas is not None:
        return None
    if kind in _REPEATING:
        return _repeat(columns, start, stop, offset, changed, stored, log_time_ms)
    if kind not in _KNOWN:
        return None
    keys, values = columns.keys[start:stop], columns.values[start:stop]
    distinct = set(keys)
    if len(distinct) < len(keys) or b"" in distinct or any(not distinct.isdisjoint(earlier) for earlier in changed):
        return None
    there = list(map(stored, keys))
    if kind & _CONDITION == _ABSENT:
        if there.count(None) < len(there):
            return None
    else:
        assert columns.versions is not None, "a batch with VERSION conditions has the column of versions"
        if unexpiring_versions(there) != list(columns.versions[start:stop]):
            return None
    operation = kind & ~_CONDITION
    if operation == _NOOP or (operation == _DELETE and kind & _CONDITION == _ABSENT):
        return Stretch({}, {})
    if operation == _DELETE:
        return Stretch(dict.fromkeys(keys), {})
    if operation == _APPEND:
        return _append(keys, values, there, offset)
    if operation == _PUT:
        return Stretch(dict(zip(keys, stored_puts(offset, values), strict=True)), {})
    assert columns.expiries is not None, "a batch with expiries has the column of expiries"
    expiries = columns.expiries[start:stop]
    if min(expiries) <= log_time_ms:
        return None
    return Stretch(
        dict(zip(keys, stored_expiring_puts(offset, values, expiries), strict=True)),
        dict(zip(zip(expiries, keys, strict=True), repeat(True))),
    )


def _append(
    keys: Sequence[bytes], values: Sequence[bytes], there: Sequence[bytes | None], offset: int
) -> Stretch | None:
    """Append to what is there, of which nothing expires."""
    after = [value if old is None else value_of(old) + value for old, value in zip(there, values, strict=True)]
    sizes = list(map(len, after))
    if max(sizes) > VALUE_BYTES_MAX:
        return None
    results = list(zip(map(Offset, range(offset, offset + len(sizes))), [b"%d" % size for size in sizes], strict=True))
    return Stretch(dict(zip(keys, stored_puts(offset, after), strict=True)), {}, results)


def _repeat(
    columns: Columns,
    start: int,
    stop: int,
    offset: int,
    changed: Sequence[Mapping[bytes, bytes | None]],
    stored: Callable[[bytes], bytes | None],
    log_time_ms: int,
) -> Stretch | None:
    """Puts, or appends, without a condition: of each key the last put counts, or all appends. 0.3 µs a record."""
    assert columns.attributes is not None, "records without attributes are plain puts"
    keys, values = columns.keys[start:stop], columns.values[start:stop]
    distinct = list(dict.fromkeys(keys))
    if b"" in distinct:
        return None
    before = _as_changed(distinct, changed, stored)
    operation = columns.attributes[start] & ~GROUPED
    if operation == _APPEND:
        return _append_again(keys, values, dict(zip(distinct, before, strict=True)), offset)
    expiries = {NEVER if old is None else expiry_of(old) for old in before}
    if operation == _PUT:
        if expiries != {NEVER}:
            return None
        return Stretch(dict(zip(keys, stored_puts(offset, values), strict=True)), {})
    assert columns.expiries is not None, "a batch with expiries has the column of expiries"
    times = columns.expiries[start:stop]
    if times[0] <= log_time_ms or times.count(times[0]) < len(times) or not expiries <= {NEVER, times[0]}:
        return None
    return Stretch(
        dict(zip(keys, stored_expiring_puts(offset, values, times), strict=True)),
        dict.fromkeys(zip(times, distinct, strict=False), True),
    )


def _as_changed(
    keys: Sequence[bytes],
    changed: Sequence[Mapping[bytes, bytes | None]],
    stored: Callable[[bytes], bytes | None],
) -> list[bytes | None]:
    """What keys hold after the earlier records; of those who changed one, the first in `changed` counts."""
    held: list[bytes | None] = []
    for key in keys:
        for earlier in changed:
            if key in earlier:
                held.append(earlier[key])
                break
        else:
            held.append(stored(key))
    return held


def _append_again(
    keys: Sequence[bytes], values: Sequence[bytes], before: Mapping[bytes, bytes | None], offset: int
) -> Stretch | None:
    """Append to keys that may come several times; all of them are there, and none expires."""
    pieces: dict[bytes, list[bytes]] = {}
    for key, old in before.items():
        if old is None or expiry_of(old) != NEVER:
            return None
        pieces[key] = [value_of(old)]
    sizes = {key: len(value) for key, (value,) in pieces.items()}
    newest: dict[bytes, int] = {}
    results: list[tuple[Offset, bytes]] = []
    for at, key, value in zip(range(offset, offset + len(keys)), keys, values, strict=True):
        pieces[key].append(value)
        sizes[key] = size = sizes[key] + len(value)
        newest[key] = at
        results.append((Offset(at), b"%d" % size))
    if max(sizes.values()) > VALUE_BYTES_MAX:
        return None
    return Stretch({key: stored_entry(b"".join(pieces[key]), newest[key], NEVER) for key in newest}, {}, results)
