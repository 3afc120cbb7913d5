"""A page of a scan of the past, or of a comparison of two states. Pure; the two indexes bring keys and states.

A key may have had nothing in a state, and two states may differ in few keys. So a page also ends where many keys in
turn were looked at in vain, and says how far it has come: no read holds up others, whatever the table has had.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from log_tier.model.identifiers import NOTHING, Offset
from serving_tier.fold.entry import value_of, version_of
from serving_tier.index.index import PastPage

__all__ = ["StateOfKeys", "past_page"]

# Keys that are looked at for each entry of a page, and for a page at least: 5 µs each.
_LOOKED: Final = 10
_LOOKED_MIN: Final = 100


class StateOfKeys(Protocol):
    """The state of an index at one offset."""

    @property
    def at(self) -> Offset: ...

    def stored(self, key: bytes, /) -> bytes | None:
        """What a key has in that state; None: nothing that counts."""
        ...


def past_page(
    keys: Iterable[bytes], state: StateOfKeys, compared: StateOfKeys | None, *, limit: int, bytes_max: int
) -> PastPage:
    """The first of `keys` that have something in a state, or something else than in the other one.

    The last one is that with which the page has `limit` entries, or `bytes_max` bytes. Raises `HistoryGone`.
    """
    assert limit > 0, f"a page of {limit} entries"
    found: list[bytes] = []
    now: list[bytes | None] = []
    before: list[bytes | None] = []
    room, looked_max, reached = bytes_max, max(_LOOKED_MIN, _LOOKED * limit), b""
    for looked, key in enumerate(keys):
        if room <= 0 or len(found) == limit or looked == looked_max:
            break
        reached = key
        stored = state.stored(key)
        other = None if compared is None else compared.stored(key)
        if _value(stored) == _value(other):
            continue
        found.append(key)
        now.append(stored)
        room -= len(key) + len(stored or b"")
        if compared is not None:
            before.append(other)
            room -= len(other or b"")
    else:
        reached = b""  # there are no more
    return PastPage(found, *_columns(now), bool(reached), state.at, reached, *_columns(before))


def _value(stored: bytes | None) -> bytes | None:
    return None if stored is None else value_of(stored)


def _columns(stored: list[bytes | None]) -> tuple[list[bytes], list[int]]:
    values = [b"" if each is None else value_of(each) for each in stored]
    return values, [NOTHING if each is None else version_of(each) for each in stored]
