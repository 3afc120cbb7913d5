"""An immutable mapping of which a changed copy costs next to nothing, and two of which can be compared as cheaply.

A map of the cluster or of an engine's topics is replaced as a whole at each change, so that readers in any thread keep
the one they have without a lock. A `dict` of thousands of entries is too large to be copied each time. Here the entries
lie in shards by the hash of their key; a changed map has one new shard and shares all others with the one before it
(path copying, as in Bagwell's hash tries, 2001; one level of shards suffices for the sizes here). A map of few entries
has one shard.

Iteration follows the order in which the keys came, as in a `dict`: it never depends on hashes, which differ from one
process to the next.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from operator import itemgetter
from typing import Any, Final, Self, TypeVar, cast, overload

__all__ = ["PersistentMap"]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

# A change copies this many pointers and one shard: some 2 µs up to ten thousand entries. A comparison looks at each.
_SHARDS: Final = 256

# A dict of so many entries is copied as quickly as the pointers to all shards.
_FEW: Final = 64

_NONE: Final[Mapping[object, tuple[int, object]]] = {}


class PersistentMap(Mapping[K, V]):
    """An immutable map; a change makes a new one that shares all shards but one. A lookup takes some 0.2 µs; going
    through all takes O(n log n).

    Invariants: the numbers of a map's entries are all different and below `_next`; they rise within a shard.
    """

    __slots__ = ("_length", "_next", "_shards")

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        """A map of `entries`. O(n)."""
        found = dict(entries)
        numbered = {key: (number, value) for number, (key, value) in enumerate(found.items())}
        self._shards = (numbered,) if len(found) <= _FEW else _sharded(numbered)
        self._length = self._next = len(found)

    def _changed(self, place: int, shard: dict[K, tuple[int, V]], *, length: int, following: int) -> Self:
        made = type(self).__new__(type(self))
        shards = list(self._shards)
        shards[place] = shard
        made._shards, made._length, made._next = tuple(shards), length, following
        return made

    def _spread(self) -> Self:
        """The same map, in as many shards as many entries need."""
        if len(self._shards) == _SHARDS:
            return self
        made = type(self).__new__(type(self))
        made._shards, made._length, made._next = _sharded(self._shards[0]), self._length, self._next
        return made

    def with_entry(self, key: K, value: V) -> Self:
        """The same map with one entry more, or with another value in a key's place."""
        place = hash(key) % len(self._shards)
        shard = self._shards[place]
        before = shard.get(key)
        if before is not None:
            return self._changed(place, {**shard, key: (before[0], value)}, length=self._length, following=self._next)
        if self._length == _FEW and len(self._shards) == 1:
            return self._spread().with_entry(key, value)
        return self._changed(
            place, {**shard, key: (self._next, value)}, length=self._length + 1, following=self._next + 1
        )

    def without(self, key: K) -> Self:
        """A copy of the map without one entry. Raises `KeyError`."""
        place = hash(key) % len(self._shards)
        shard = dict(self._shards[place])
        del shard[key]
        return self._changed(place, shard, length=self._length - 1, following=self._next)

    def since(self, before: PersistentMap[K, V]) -> tuple[list[K], list[K]]:
        """How this map differs from an earlier one: the keys that are new or have another object as their value, in
        this map's order; and the keys that only the earlier one has, in its order.

        O(changes) where this map was made of the earlier one, and the number of shards.
        """
        changed: list[tuple[int, K]] = []
        gone: list[tuple[int, K]] = []
        theirs, mine = before._shards, self._shards
        if len(theirs) != len(mine):
            theirs, mine = before._spread()._shards, self._spread()._shards
        for then, now in zip(theirs, mine, strict=True):
            if then is now:
                continue
            for key, (number, value) in now.items():
                old = then.get(key)
                if old is None or old[1] is not value:
                    changed.append((number, key))
            gone.extend((number, key) for key, (number, _) in then.items() if key not in now)
        return [key for _, key in sorted(changed, key=_number)], [key for _, key in sorted(gone, key=_number)]

    def __getitem__(self, key: K) -> V:
        shards = self._shards
        return shards[hash(key) % len(shards)][key][1]

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...

    def get(self, key: K, /, default: T | None = None) -> V | T | None:
        shards = self._shards
        found = shards[hash(key) % len(shards)].get(key)
        return default if found is None else found[1]

    def __contains__(self, key: object) -> bool:
        return key in self._shards[hash(key) % len(self._shards)]

    def __len__(self) -> int:
        return self._length

    def _in_order(self) -> list[tuple[int, K, V]]:
        entries = [(number, key, value) for shard in self._shards if shard for key, (number, value) in shard.items()]
        if len(self._shards) > 1:
            entries.sort(key=_number)
        return entries

    def __iter__(self) -> Iterator[K]:
        return iter([key for _, key, _ in self._in_order()])

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"


class _Items(ItemsView[K, V]):
    _mapping: PersistentMap[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return iter([(key, value) for _, key, value in self._mapping._in_order()])


class _Values(ValuesView[V]):
    _mapping: PersistentMap[Any, V]

    def __iter__(self) -> Iterator[V]:
        return iter([value for _, _, value in self._mapping._in_order()])


def _sharded(numbered: Mapping[K, tuple[int, V]]) -> tuple[dict[K, tuple[int, V]], ...]:
    shards: list[dict[K, tuple[int, V]]] = [cast("dict[K, tuple[int, V]]", _NONE)] * _SHARDS
    for key, entry in numbered.items():
        place = hash(key) % _SHARDS
        if shards[place] is _NONE:
            shards[place] = {}
        shards[place][key] = entry
    return tuple(shards)


_number = itemgetter(0)
