"""Stretches: neighbouring records of one atomic group that ask for the same, each of a key of its own. Pure.

A pipeline of a thousand INCRs or DELs is a group of a thousand records with one attribute. To decide on each by itself
costs some 2 µs; this file decides on all of them by a few calls into C, 0.5 µs a record, most of it the lookups.

It knows the plain case and no other: puts (with an expiry at a time, or with none), appends, deletes and no-ops, under
the condition that each key is absent, or has a version; nobody has changed the keys before in what is being folded, no
entry that is there expires, and every condition holds. Whatever else it meets, it returns None, and the records are
decided on one by one (`decision.py`), which is what a stretch means: for the plain case the two agree in every byte.
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
from serving_tier.fold.entry import stored_expiring_puts, stored_puts, unexpiring_versions, value_of

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
"""The attributes of the plain case."""

assert all(kind >> EXPIRY_SHIFT & 3 in (Expiry.NONE, Expiry.AT) for kind in _KNOWN), "an expiry that is no plain case"


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
    if kind not in _KNOWN or columns.deltas is not None:
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
