"""A cache of a replica's values that were read lately, as the bytes of their replies.

A lookup in LMDB walks four pages of a tree, 0.5 to 1 µs where they are not in the processor's cache; one in a dict
takes a fifth of that. For a single GET that is a tenth of its time, for MGET of a hundred keys most of it.

    V1  A value is used only while this cache has heard of everything that its index has applied, and the index is the
        one that it was read from. It then is what the index would answer.
    V2  Everything happens on the event loop: a value that was read from the index is put here before the cache hears of
        any later batch, and a batch removes its keys.
    V3  Values that expire are not here, nor is the absence of a key.

    V4  Nobody is shown a value from here after something newer from the index. Readers see a commit before the index
        says which offset it has applied, so code that reads the index while a batch is being applied calls `passed`,
        and the values here are not used until the cache has heard of that batch. WATCH, which reads the index, would
        else be followed by a GET of the value before, and EXEC be granted on it.

From the time when the index has applied a batch (in another thread) until the cache hears of it, the offsets differ,
and reads go to the index.

All caches of an endpoint share one memory limit (`CacheBudget`). A cache has two generations: what was read since its
last turn, and what was read before it; at the limit the largest one makes a turn and forgets the older half. What is
read again moves to the young one, so it is roughly the least recently used that goes (the clock's idea with a hand that
moves in leaps).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from log_tier.model.batch import Batch
from log_tier.model.identifiers import NOTHING, Offset
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.replica import Replica

__all__ = ["REPLY_BYTES_MAX", "CacheBudget", "ValueCache"]

# Of an entry, in addition to the bytes of its key and its reply: the heads of two objects and its share of a dict.
_ENTRY_BYTES: Final = 180

REPLY_BYTES_MAX: Final = 16 << 10
"""Longer ones are not kept: copying them costs as much as looking them up."""

# A batch with more keys than this (a bulk load, a replica that catches up) empties the cache: looking for each of them
# would hold the event loop longer than reading again what is still wanted.
_NAMED_MAX: Final = 4096


class CacheBudget:
    """How many bytes the caches of an endpoint may have together."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self.caches: list[ValueCache] = []

    def make(self) -> None:
        """Forget until the caches are below the limit. O(number of caches) for each turn."""
        while self.used_bytes > self.bytes_max:
            max(self.caches, key=lambda cache: cache.size_bytes).turn()


class ValueCache:
    """The cache of one replica, for one event loop. `open()` makes one, `close()` takes it out of its `CacheBudget`."""

    __slots__ = (
        "_begun",
        "_budget",
        "_old_bytes",
        "_replica",
        "_young_bytes",
        "applied",
        "index",
        "old",
        "transaction",
        "young",
    )

    def __init__(self, replica: Replica, budget: CacheBudget) -> None:
        self._replica = replica
        self._budget = budget
        self._begun = False
        """Has it heard of an index's state? Only then is there anything in it."""
        self.index: LmdbIndex = replica.index
        """What the values are of."""
        self.applied: Offset = NOTHING
        """The last offset that the cache has heard of; the values hold for it."""
        self.transaction = -1
        """The index's transaction at that offset: a read under this number sees the same state as the values here."""
        self.young: dict[bytes, bytes] = {}
        """Replies by key, read since the last turn."""
        self.old: dict[bytes, bytes] = {}
        """Read before it."""
        self._young_bytes = self._old_bytes = 0

    @classmethod
    def open(cls, replica: Replica, budget: CacheBudget) -> ValueCache:
        """A cache of a replica that is here. Its values hold from the first read or the first batch on: to ask an index
        at rest for its state would open its file, and a table has a thousand of those.
        """
        cache = cls(replica, budget)
        if budget.bytes_max:
            budget.caches.append(cache)
            replica.observers.append(cache)
        else:
            cache._begun = True
        return cache

    @property
    def size_bytes(self) -> int:
        """Bytes that this cache uses of the `CacheBudget`."""
        return self._young_bytes + self._old_bytes

    def replica_applied(self, index: LmdbIndex, batches: Sequence[Batch]) -> None:
        """`index` has applied these batches."""
        if index is not self.index or sum(len(batch.columns.keys) for batch in batches) > _NAMED_MAX:
            self.clear()
            self.index = index
        elif self.young or self.old:
            for batch in batches:
                self._forget(batch.columns.keys)
        self._begin()

    def _begin(self) -> None:
        self._begun = True
        self.applied, self.transaction = self.index.applied, self.index.transaction()

    def replica_left(self) -> None:
        """The values hold for the old index: a reader compares it with the live one."""

    def passed(self) -> None:
        """A client was shown the index as it is, which may be newer than what the cache has heard of. See V4. Where the
        cache has heard of nothing yet and no batch is under way, it begins with that state.
        """
        if self._replica.applying.under_way:
            self.applied = NOTHING
        elif not self._begun:
            self.index = self._replica.index
            self._begin()

    def _forget(self, keys: Iterable[bytes]) -> None:
        young, old = self.young, self.old
        for key in keys:
            if (reply := young.pop(key, None)) is not None:
                size = len(key) + len(reply) + _ENTRY_BYTES
                self._young_bytes -= size
                self._budget.used_bytes -= size
            if old and (reply := old.pop(key, None)) is not None:
                size = len(key) + len(reply) + _ENTRY_BYTES
                self._old_bytes -= size
                self._budget.used_bytes -= size

    def put(self, key: bytes, reply: bytes) -> None:
        """Keep what was just read from the index, with nothing awaited in between; the key was not here."""
        if len(reply) > REPLY_BYTES_MAX:
            return
        size = len(key) + len(reply) + _ENTRY_BYTES
        budget = self._budget
        self.young[key] = reply
        self._young_bytes += size
        budget.used_bytes += size
        if budget.used_bytes > budget.bytes_max:
            budget.make()

    def put_new(self, keys: Sequence[bytes], stored: Sequence[bytes | None], replies: Sequence[bytes]) -> None:
        """`put` for several keys, some of which may be in the cache, or absent, or expire."""
        for key, entry, reply in zip(keys, stored, replies, strict=True):
            # A turn on the way makes other dicts of them.
            if entry is not None and not entry[7] and key not in self.young and key not in self.old:
                self.put(key, reply)

    def again(self, key: bytes) -> bytes | None:
        """A value that was read before the last turn; from now on it counts as read since."""
        reply = self.old.pop(key, None)
        if reply is None:
            return self.young.get(key)
        size = len(key) + len(reply) + _ENTRY_BYTES
        self._old_bytes -= size
        self._young_bytes += size
        self.young[key] = reply
        return reply

    def turn(self) -> None:
        """Forget the older generation."""
        self._budget.used_bytes -= self._old_bytes
        self.old, self._old_bytes = self.young, self._young_bytes
        self.young, self._young_bytes = {}, 0

    def clear(self) -> None:
        """Forget everything."""
        self.turn()
        self.turn()

    def close(self) -> None:
        """Hear no more. Idempotent."""
        self.clear()
        self.applied, self._begun = NOTHING, True
        if self in self._budget.caches:
            self._budget.caches.remove(self)
            self._replica.observers.remove(self)
