"""What a data command sees: some keys of one moment, which it reads and changes. Pure.

Every command on keys is a function of a view and its arguments. The same function runs for a command by itself and
inside MULTI; what its changes become in the log is the business of `rounds/`.

Expiry is judged twice: the replica leaves out what its log time has passed, and the view what the clock of this
process has passed. The second look makes a key go at its millisecond, as in Redis, although an idle partition's log
time follows with a tenth of a second's delay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.record import PLAIN_PUT
from serving_tier.fold.entry import NEVER, Entry

__all__ = ["APPENDED", "Overlay", "PendingVersion", "ReadOnlyView", "Record", "Step", "View", "known_version"]


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

    def append(self, key: bytes, value: bytes) -> int:
        """Add to a key's value, or give it this one; its length then. The expiry stays."""
        ...

    def remove(self, key: bytes) -> None:
        """Delete a key."""
        ...


Step = Callable[[View, Sequence[bytes]], Any]
"""A data command: changes the view, returns the reply or raises `Problem`; arguments without the command's name."""


class Record(NamedTuple):
    """One record that a command writes: one of a group."""

    key: bytes
    value: bytes
    attribute: int = PLAIN_PUT
    version: int = 0
    expiry_ms: int = 0


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

    def append(self, key: bytes, value: bytes) -> int:
        """Not here."""
        raise AssertionError("a command that only reads has appended")

    def remove(self, key: bytes) -> None:
        """Not here."""
        raise AssertionError("a command that only reads has deleted")


class Overlay:
    """A view that notes what is read and what is changed.

    Invariants:

    - `get` sees every earlier `put` and `remove`; `found` is what was there before all of them.
    - `read` holds every key whose old state somebody has seen, with that state: what must still hold when the log
      decides. What was written before anybody looked at it is not among them.

    **Versions.** A key that was written here gets its version when the log gives the record its offset. Until then it
    has none that anybody can know, so a key that was written here has changed for every watcher (`is_still`), even if
    it was deleted again; its entry's version is then -2 minus its place in `writes` (`known_version`).
    """

    __slots__ = ("_entries", "bytes", "found", "now_ms", "read", "writes")

    def __init__(self, found: Mapping[bytes, Entry | None], now_ms: int) -> None:
        self.found = found
        self.now_ms = now_ms
        self.writes: list[tuple[bytes, bytes | None, int]] = []
        """Key, its new value (None: deleted), its expiry (`APPENDED`: the value is added to what is there)."""
        self.read: dict[bytes, Entry | None] = {}
        self.bytes = 0
        """What `writes` will take in a batch, about."""
        self._entries: dict[bytes, Entry | None] = {}

    def get(self, key: bytes) -> Entry | None:
        """See `View`."""
        entry = self._entries[key] if key in self._entries else self._look(key)
        return None if entry is None or 0 < entry.expires_at_ms <= self.now_ms else entry

    def _look(self, key: bytes) -> Entry | None:
        if key in self.read:
            return self.read[key]
        entry = self.read[key] = self.found[key]
        return entry

    def put(self, key: bytes, value: bytes, expires_at_ms: int = NEVER) -> None:
        """See `View`."""
        writes = self.writes
        self._entries[key] = _new_entry((value, -2 - len(writes), expires_at_ms))
        writes.append((key, value, expires_at_ms))
        self.bytes += len(key) + len(value)

    def append(self, key: bytes, value: bytes) -> int:
        """See `View`."""
        entry = self.get(key)
        if entry is None:
            self.put(key, value)
            return len(value)
        after = entry.value + value
        writes = self.writes
        self._entries[key] = _new_entry((after, -2 - len(writes), entry.expires_at_ms))
        writes.append((key, value, APPENDED))
        self.bytes += len(key) + len(value)
        return len(after)

    def remove(self, key: bytes) -> None:
        """See `View`."""
        self._entries[key] = None
        self.writes.append((key, None, NEVER))
        self.bytes += len(key)

    def is_still(self, key: bytes, version: Offset) -> bool:
        """Does a key still have the version that its watcher saw? False for what was written here since."""
        return key not in self._entries and self.version(key) == version

    def version(self, key: bytes) -> Offset:
        """The version of what was there before all changes; `NOTHING` where nothing was, or only what has expired."""
        entry = self._look(key)
        return NOTHING if entry is None or 0 < entry.expires_at_ms <= self.now_ms else entry.version


APPENDED: Final = -1
"""In the place of an expiry: the record adds to the value that is there, and keeps its expiry."""

# A named tuple's own constructor is a Python function; this one is not, and every write makes an entry.
_new_entry: Final[Callable[[tuple[bytes, int, int]], Entry]] = partial(tuple.__new__, Entry)


class PendingVersion(int):
    """In a reply: the version that the n-th write of the group will get; `rounds/jobs.py` replaces it by the offset."""


def known_version(entry: Entry) -> int:
    """An entry's version as a reply has it: its offset, or `PendingVersion` where the log has not given it yet."""
    return int(entry.version) if entry.version >= NOTHING else PendingVersion(-2 - entry.version)
