"""What an index holds of some keys, decoded as far as somebody looks. Pure.

A command that asks whether a key is there (DEL, SET NX) needs the eight bytes of its version, and no value. A round has
read the stored forms of all its keys; to make an entry of each would be a third of what a DEL costs in a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from log_tier.model.identifiers import NOTHING, Offset
from serving_tier.fold.entry import LiveEntry, entry_of, is_live, plain_entries, unexpiring_versions

__all__ = ["StoredEntries"]


class StoredEntries(Mapping[bytes, LiveEntry | None]):
    """The entries of some keys at one applied offset; None for what is absent or has expired.

    Reading an entry raises `IndexDamaged` for flags that nothing here writes.
    """

    __slots__ = ("_decoded", "_log_time_ms", "_stored")

    def __init__(self, keys: Sequence[bytes], stored: Sequence[bytes | None], log_time_ms: int) -> None:
        """`stored`: the stored form of each key. `log_time_ms`: what expires at or before it is absent. O(keys), 30 ns
        each.
        """
        self._stored = dict(zip(keys, stored, strict=True))
        self._log_time_ms = log_time_ms
        self._decoded: dict[bytes, LiveEntry | None] = {}
        """What `each` has decoded."""

    def __getitem__(self, key: bytes) -> LiveEntry | None:
        """One entry; 0.5 µs. Raises `KeyError` for a key that was not read."""
        return self._read(self._stored[key])

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def _read(self, stored: bytes | None) -> LiveEntry | None:
        if stored is None or (stored[7] and not is_live(stored, self._log_time_ms)):
            return None
        return entry_of(stored)

    def each(self, keys: Sequence[bytes]) -> Sequence[LiveEntry | None]:
        """The entries of these keys. 0.4 µs a key the first time, a quarter of it where nothing is there, or again."""
        decoded = self._decoded
        fresh = [key for key in keys if key not in decoded] if decoded else keys
        if fresh:
            stored = list(map(self._stored.__getitem__, fresh))
            if any(stored):
                decoded.update(zip(fresh, plain_entries(stored) or map(self._read, stored), strict=True))
            else:
                decoded.update(dict.fromkeys(fresh))
        return list(map(decoded.__getitem__, keys))

    def versions(self, keys: Sequence[bytes]) -> list[Offset] | None:
        """The versions of these keys, `NOTHING` where one is absent; None if an entry may expire. 0.1 µs a key."""
        stored = list(map(self._stored.__getitem__, keys))
        there = [each for each in stored if each is not None]
        versions = cast("list[Offset] | None", unexpiring_versions(there))
        if versions is None or len(there) == len(stored):
            return versions
        following = iter(versions)
        return [NOTHING if each is None else next(following) for each in stored]
