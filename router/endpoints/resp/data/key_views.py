"""What a data command sees: some keys at one applied offset, which it reads and changes. Pure.

Every command on keys is a function of a view and its arguments. The same function runs for a command by itself and
inside MULTI; what its changes become in the log is the business of `rounds/`.

Expiry is judged twice: the replica leaves out what its log time has passed, and the view what the clock of this
process has passed. The second look makes a key go at its millisecond, as in Redis, although an idle partition's log
time follows with a tenth of a second's delay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.record import PLAIN_PUT
from router.endpoints.resp.data.stored_entries import StoredEntries
from serving_tier.fold.entry import NEVER, LiveEntry

__all__ = [
    "APPENDED",
    "MAY_BE_PENDING",
    "DataCommand",
    "DraftRecord",
    "Each",
    "Overlay",
    "PendingVersion",
    "ReadOnlyView",
    "TooLongForATurn",
    "Undecided",
    "View",
    "known_version",
    "pending_versions",
    "with_versions",
]


class TooLongForATurn(Exception):
    """Control flow: the commands of one EXEC take longer than a turn of the event loop. They run again in a thread."""


class Undecided(Exception):
    """Control flow: what a command asks depends on an offset that the log has not given yet. It waits for the next
    round, and its connection's later commands with it.
    """


class View(Protocol):
    """The keys that a command named."""

    @property
    def now_ms(self) -> int:
        """The time at which the command runs, in ms since 1970."""
        ...

    def get(self, key: bytes) -> LiveEntry | None:
        """A key's entry; None where it is absent or has expired."""
        ...

    def put_over(self, key: bytes, version: Offset, value: bytes, expires_at_ms: int) -> PendingVersion | None:
        """`put` if the key has this version, or is absent where that is `NOTHING`: its new version; else None. Raises
        `Undecided`.
        """
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

    def go_on(self) -> None:
        """Called between the commands of one EXEC. Raises `TooLongForATurn`."""
        ...


DataCommand = Callable[[View, Sequence[bytes]], Any]
"""A data command: changes the view, returns the reply or raises `Problem`; arguments without the command's name."""

Each = Callable[["Overlay", Sequence[Sequence[bytes]]], "Sequence[Any] | None"]
"""Many commands of one kind and one number of words, each on one key: `DataCommand` in columns.

The arguments come as columns, the keys first. What it changes and replies is what the commands one after the other do.
None where one of them is unusual: they have to run one by one then, and nothing was changed."""


class DraftRecord(NamedTuple):
    """One record that a command writes: one of a group."""

    key: bytes
    value: bytes
    attribute: int = PLAIN_PUT
    version: int = 0
    expiry_ms: int = 0


class ReadOnlyView:
    """A view for commands that only read."""

    __slots__ = ("_entries", "now_ms")

    def __init__(self, entries: Mapping[bytes, LiveEntry | None], now_ms: int) -> None:
        self._entries = entries
        self.now_ms = now_ms

    def get(self, key: bytes) -> LiveEntry | None:
        entry = self._entries[key]
        return None if entry is None or 0 < entry.expires_at_ms <= self.now_ms else entry

    def put_over(self, key: bytes, version: Offset, value: bytes, expires_at_ms: int) -> PendingVersion | None:
        raise AssertionError("a command that only reads has compared versions")

    def put(self, key: bytes, value: bytes, expires_at_ms: int = NEVER) -> None:
        raise AssertionError("a command that only reads has written")

    def append(self, key: bytes, value: bytes) -> int:
        raise AssertionError("a command that only reads has appended")

    def remove(self, key: bytes) -> None:
        raise AssertionError("a command that only reads has deleted")

    def go_on(self) -> None:
        """Reads are bounded by their keys."""


class Overlay:
    """A view that notes what is read and what is changed.

    Invariants:

    - `get` sees every earlier `put` and `remove`; `found` is what was there before all of them.
    - `conditions` holds every key whose old state a command has seen, with the version that it had, or `NOTHING`: what
      must still hold when the log decides. A key that was written before any command read it is not among them.
    - `keys`, `values` and `expiries` are the columns of what was written, in its order.
    - Every reply is final, or `conditions` are to be judged by the log: where something was written, or `guarded` is
      set.

    **Versions.** A key that was written here gets its version when the log gives the record its offset. Until then its
    version is unknown, so a key that was written here has changed for every watcher (`is_still`), even if it was
    deleted again; its entry's version is then -2 minus its place in `keys` (`known_version`).

    **Columns.** `get_each`, `is_there_each`, `put_each`, `append_each` and `remove_each` do the same for many keys by
    calls into C: a fifth of the time of as many calls. To put and to append, a key may come several times.
    """

    __slots__ = (
        *("_entries", "_in_turn", "bytes", "conditions", "expires", "expiries", "found", "guarded", "keys", "late"),
        *("now_ms", "read_at", "together", "values"),
    )

    def __init__(
        self,
        found: Mapping[bytes, LiveEntry | None],
        now_ms: int,
        late: Callable[[], bool] = lambda: False,
        *,
        in_turn: bool = False,
        read_at: Offset = NOTHING,
        together: bool = False,
    ) -> None:
        """`in_turn`: the commands run in a turn of the event loop, and not in a thread. `read_at`: `found` is a state
        that holds this offset, or more.
        """
        self._in_turn = in_turn
        self.read_at = read_at
        self.found = found
        self.now_ms = now_ms
        self.late = late
        """Is the time of the round over? Then commands that can wait for the next one do."""
        self.keys: list[bytes] = []
        self.values: list[bytes | None] = []
        """None: deleted."""
        self.expiries: list[int] = []
        """`NEVER`, a time, or `APPENDED`: the value is added to what is there."""
        self.conditions: dict[bytes, Offset] = {}
        self.expires = False
        """Does any of the entries that were looked at expire? Then the conditions depend on the log's time, too."""
        self.guarded = False
        """Is the log to judge the conditions although nothing was written?"""
        self.together = together
        """What is written here takes effect together or not at all, whatever was read: the log may reject any of it."""
        self.bytes = 0
        """What the writes will take in a batch, about."""
        self._entries: dict[bytes, LiveEntry | None] = {}

    def get(self, key: bytes) -> LiveEntry | None:
        if key not in self._entries:
            return self._look(key)
        entry = self._entries[key]
        return None if entry is None or 0 < entry.expires_at_ms <= self.now_ms else entry

    def _look(self, key: bytes) -> LiveEntry | None:
        """What was there before all changes, if it has not expired."""
        entry = self.found[key]
        if entry is not None and entry.expires_at_ms:
            self.expires = True
        if entry is None or 0 < entry.expires_at_ms <= self.now_ms:
            self.conditions[key] = NOTHING
            return None
        self.conditions[key] = entry.version
        return entry

    @property
    def is_judged(self) -> bool:
        """Is what becomes of the writes to be learned from the log's verdict?"""
        return self.together or bool(self.conditions)

    @property
    def holds_at(self) -> Offset | None:
        """The conditions hold in the state at this offset, or a later one, whatever the log's time is; None: they
        depend on it.
        """
        return None if self.expires else self.read_at

    def put_over(self, key: bytes, version: Offset, value: bytes, expires_at_ms: int) -> PendingVersion | None:
        """See `View`. A replica that is behind may not have the version yet: then the log judges also that there is
        another one. A version before `read_at` that was overtaken there never comes back.
        """
        entry = self.get(key)
        if entry is not None and entry.version < NOTHING and version > self.read_at:
            raise Undecided  # it may be the one that the log is going to give
        if (NOTHING if entry is None else entry.version) != version:
            self.guarded |= version == NOTHING or version > self.read_at
            return None
        self.put(key, value, expires_at_ms)
        return PendingVersion(len(self.keys) - 1)

    def put(self, key: bytes, value: bytes, expires_at_ms: int = NEVER) -> None:
        self._entries[key] = _new_entry((value, -2 - len(self.keys), expires_at_ms))
        self._note(key, value, expires_at_ms)

    def append(self, key: bytes, value: bytes) -> int:
        entry = self.get(key)
        if entry is None:
            self.put(key, value)
            return len(value)
        after = entry.value + value
        self._entries[key] = _new_entry((after, -2 - len(self.keys), entry.expires_at_ms))
        self._note(key, value, APPENDED)
        return len(after)

    def remove(self, key: bytes) -> None:
        self._entries[key] = None
        self._note(key, None, NEVER)

    def go_on(self) -> None:
        if self._in_turn and self.late():
            raise TooLongForATurn

    def _note(self, key: bytes, value: bytes | None, expires_at_ms: int) -> None:
        self.keys.append(key)
        self.values.append(value)
        self.expiries.append(expires_at_ms)
        self.bytes += len(key) if value is None else len(key) + len(value)

    # --- many keys

    def get_each(self, keys: Sequence[bytes]) -> list[LiveEntry | None]:
        """`get` for each key; all of them differ."""
        if not self._entries.keys().isdisjoint(keys):
            return list(map(self.get, keys))
        now_ms, found = self.now_ms, self.found
        held = found.each(keys) if isinstance(found, StoredEntries) else list(map(found.__getitem__, keys))
        if not self.expires:
            self.expires = bool([entry for entry in held if entry is not None and entry[2]])
        entries = [None if entry is None or 0 < entry[2] <= now_ms else entry for entry in held]
        versions = [NOTHING if entry is None else entry[1] for entry in entries]
        self.conditions.update(zip(keys, versions, strict=True))
        return entries

    def is_there_each(self, keys: Sequence[bytes]) -> list[bool]:
        """Does `get` find something, for each key? All of them differ."""
        found = self.found
        if isinstance(found, StoredEntries) and self._entries.keys().isdisjoint(keys):
            versions = found.versions(keys)
            if versions is not None:
                self.conditions.update(zip(keys, versions, strict=True))
                return [version != NOTHING for version in versions]
        return [entry is not None for entry in self.get_each(keys)]

    def put_each(self, keys: Sequence[bytes], values: Sequence[bytes], expiries: Sequence[int]) -> None:
        """`put` for each key."""
        places = range(-2 - len(self.keys), -2 - len(self.keys) - len(keys), -1)
        self._entries.update(zip(keys, map(_new_entry, zip(values, places, expiries, strict=True)), strict=True))
        self.keys += keys
        self.values += values
        self.expiries += expiries
        self.bytes += sum(map(len, keys)) + sum(map(len, values))

    def append_each(self, keys: Sequence[bytes], values: Sequence[bytes]) -> list[int]:
        """`append` for each key; the lengths then. O(bytes), however often a key comes."""
        distinct = list(dict.fromkeys(keys))
        entries = self.get_each(distinct)
        if len(distinct) < len(keys):
            return self._append_again(keys, values, dict(zip(distinct, entries, strict=True)))
        after = [value if entry is None else entry[0] + value for entry, value in zip(entries, values, strict=True)]
        expiries = [NEVER if entry is None else entry[2] for entry in entries]
        places = range(-2 - len(self.keys), -2 - len(self.keys) - len(keys), -1)
        self._entries.update(zip(keys, map(_new_entry, zip(after, places, expiries, strict=True)), strict=True))
        self.keys += keys
        self.values += values
        self.expiries += [NEVER if entry is None else APPENDED for entry in entries]
        self.bytes += sum(map(len, keys)) + sum(map(len, values))
        return list(map(len, after))

    def _append_again(
        self, keys: Sequence[bytes], values: Sequence[bytes], entries: Mapping[bytes, LiveEntry | None]
    ) -> list[int]:
        """`append_each` where keys come several times. `entries`: what was there before."""
        pieces = {key: [] if entry is None else [entry.value] for key, entry in entries.items()}
        sizes = {key: 0 if entry is None else len(entry.value) for key, entry in entries.items()}
        places: dict[bytes, int] = {}
        lengths: list[int] = []
        place = -2 - len(self.keys)
        for key, value in zip(keys, values, strict=True):
            self.expiries.append(APPENDED if pieces[key] else NEVER)
            pieces[key].append(value)
            sizes[key] += len(value)
            lengths.append(sizes[key])
            places[key] = place
            place -= 1
        for key, entry in entries.items():
            expires_at_ms = NEVER if entry is None else entry.expires_at_ms
            self._entries[key] = _new_entry((b"".join(pieces[key]), places[key], expires_at_ms))
        self.keys += keys
        self.values += values
        self.bytes += sum(map(len, keys)) + sum(map(len, values))
        return lengths

    def remove_each(self, keys: Sequence[bytes]) -> None:
        """`remove` for each key; all of them differ."""
        self._entries.update(dict.fromkeys(keys))
        self.keys += keys
        self.values += [None] * len(keys)
        self.expiries += [NEVER] * len(keys)
        self.bytes += sum(map(len, keys))

    def is_still(self, key: bytes, version: Offset) -> bool:
        """Does a key still have the version that its watcher saw? False for what was written here since."""
        return key not in self._entries and self.version(key) == version

    def version(self, key: bytes) -> Offset:
        """The version of what was there before all changes; `NOTHING` where nothing was, or only what has expired."""
        self._look(key)
        return self.conditions[key]


APPENDED: Final = -1
"""In the place of an expiry: the record adds to the value that is there, and keeps its expiry."""

# A named tuple's own constructor is a Python function; this one is not, and every write makes an entry.
_new_entry: Final[Callable[[tuple[bytes, int, int]], LiveEntry]] = partial(tuple.__new__, LiveEntry)


class PendingVersion(int):
    """In a reply: the version that the n-th write of the group will get; `with_versions` replaces it by the offset."""


MAY_BE_PENDING: Final = frozenset({PendingVersion, list})
"""The types of replies that may be, or hold, a version that is not known yet."""


def pending_versions(first: int, count: int) -> list[PendingVersion]:
    """Of so many writes of a group, the first of which has this place in it."""
    return list(map(PendingVersion, range(first, first + count)))


def known_version(entry: LiveEntry) -> int:
    """An entry's version as a reply has it: its offset, or `PendingVersion` where the log has not given it yet."""
    return int(entry.version) if entry.version >= NOTHING else PendingVersion(-2 - entry.version)


def with_versions(reply: Any, first: int) -> Any:
    """A reply with the offsets of its group's writes, the first of which lies at `first`."""
    if isinstance(reply, PendingVersion):
        return first + int(reply)
    if isinstance(reply, list) and not _is_final(reply):
        return [with_versions(each, first) for each in reply]
    return reply


def _is_final(reply: list[Any]) -> bool:
    """Is there no pending version in a reply, nor in the lists that it has? 30 ns an entry."""
    kinds = set(map(type, reply))
    if list in kinds:
        kinds.remove(list)
        kinds.update(map(type, chain.from_iterable([each for each in reply if type(each) is list])))
    return kinds.isdisjoint(MAY_BE_PENDING)
