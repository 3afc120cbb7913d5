"""What a data command sees: some keys of one moment, which it reads and changes. Pure.

Every command on keys is a function of a view and its arguments. The same function runs for a command by itself and
inside MULTI; what its changes become in the log is the business of `changes.py`.

Expiry is judged twice: the replica leaves out what its log time has passed, and the view what the clock of this
process has passed. The second look makes a key go at its millisecond, as in Redis, although an idle partition's log
time follows with a tenth of a second's delay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from log_tier.model.identifiers import NOTHING, Offset
from serving_tier.fold.entry import NEVER, Entry

__all__ = ["Overlay", "ReadOnlyView", "Step", "View"]


class View(Protocol):
    """The keys that a command named."""

    @property
    def now_ms(self) -> int:
        """The time at which the command runs, in ms since 1970."""
        ...

    def get(self, key: bytes) -> Entry | None:
        """A key's entry; None where it is absent or has expired."""
        ...

    def put(self, key: bytes, value: bytes, expires_at_ms: int = NEVER) -> None:
        """Give a key a value."""
        ...

    def remove(self, key: bytes) -> None:
        """Delete a key."""
        ...


Step = Callable[[View, Sequence[bytes]], Any]
"""A data command: changes the view, returns the reply or raises `Problem`; arguments without the command's name."""


class ReadOnlyView:
    """A view for commands that only read."""

    __slots__ = ("_entries", "now_ms")

    def __init__(self, entries: Mapping[bytes, Entry | None], now_ms: int) -> None:
        self._entries = entries
        self.now_ms = now_ms

    def get(self, key: bytes) -> Entry | None:
        """See `View`."""
        entry = self._entries[key]
        return None if entry is None or 0 < entry.expires_at_ms <= self.now_ms else entry

    def put(self, key: bytes, value: bytes, expires_at_ms: int = NEVER) -> None:
        """Not here."""
        raise AssertionError("a command that only reads has written")

    def remove(self, key: bytes) -> None:
        """Not here."""
        raise AssertionError("a command that only reads has deleted")


class Overlay:
    """A view that notes what is changed: `writes`, in order.

    Invariant: `get` sees every earlier `put` and `remove`; `found` is what was there before all of them.

    **Versions.** A key that was written here gets its version when the log gives the record its offset. Until then it
    has none that anybody can know, so a key that was written here has changed for every watcher (`is_still`), even if
    it was deleted again.
    """

    __slots__ = ("_entries", "found", "now_ms", "writes")

    def __init__(self, found: Mapping[bytes, Entry | None], now_ms: int) -> None:
        self.found = found
        self.now_ms = now_ms
        self.writes: list[tuple[bytes, bytes | None, int]] = []
        """Key, its new value (None: deleted), its expiry."""
        self._entries: dict[bytes, Entry | None] = {}

    def get(self, key: bytes) -> Entry | None:
        """See `View`."""
        entry = self._entries[key] if key in self._entries else self.found[key]
        return None if entry is None or 0 < entry.expires_at_ms <= self.now_ms else entry

    def put(self, key: bytes, value: bytes, expires_at_ms: int = NEVER) -> None:
        """See `View`."""
        self._entries[key] = Entry(value, NOTHING, expires_at_ms)
        self.writes.append((key, value, expires_at_ms))

    def remove(self, key: bytes) -> None:
        """See `View`."""
        self._entries[key] = None
        self.writes.append((key, None, NEVER))

    def is_still(self, key: bytes, version: Offset) -> bool:
        """Does a key still have the version that its watcher saw? False for what was written here since."""
        return key not in self._entries and self.version(key) == version

    def version(self, key: bytes) -> Offset:
        """The version of what was there before all changes; `NOTHING` where nothing was, or only what has expired."""
        entry = self.found[key]
        return NOTHING if entry is None or 0 < entry.expires_at_ms <= self.now_ms else entry.version
