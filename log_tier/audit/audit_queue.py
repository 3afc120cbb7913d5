"""The rows that wait to be written: bounded, in the order of their times, with equal events of a second as one. Pure.

    add(event) ──▶ [row row row … row]  ──▶ ready(n) ──▶ (written) ──▶ wrote(n)
                     │          ▲
                     │          └ of the last second: an equal event raises its count
                     └ older than a second: does not change any more

A flood cannot fill it. Of the refused calls of one user in a second, and of those of everybody who proved nothing
together, the first `REFUSED_KEYS_PER_S` different ones have rows of their own. More of them are one row for each
command and table, which names a key as long as all its calls have that one. Beyond `REFUSED_ROWS_PER_S` rows they are
counted in one row, which says so. Streams that are ended are bounded likewise, for themselves. Reads and writes of one
user begin at most `ACCESS_ROWS_PER_S` rows; what is more of them is one row for each command and table. What proved
nothing never takes more than half of the room, and it and reads and writes together leave a quarter to everything else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from itertools import islice
from typing import Final

from log_tier.audit.audit_event import TEXT_MAX, AuditEvent, AuditResult
from log_tier.audit.audit_row import AuditRow
from log_tier.audit.audit_settings import WINDOW_S
from log_tier.concurrency.clocks import Clock

__all__ = ["ACCESS_ROWS_PER_S", "BYTES_MAX", "REFUSED_KEYS_PER_S", "REFUSED_ROWS_PER_S", "ROWS_MAX", "AuditQueue"]

ROWS_MAX: Final = 10_000
"""Some minutes of a busy server whose table cannot be written."""
BYTES_MAX: Final = 8 * 1024 * 1024
REFUSED_ROWS_PER_S: Final = 64
REFUSED_KEYS_PER_S: Final = 8
"""Of refused calls that differ in their keys. A program that goes on with calls that are refused makes no more rows."""
ACCESS_ROWS_PER_S: Final = 1000
"""Of allowed reads and writes. One connection of the Redis protocol has 100,000 commands in a second."""

# A row without its texts: the object, its key, its place in the queue and in the dict.
_ROW_BYTES: Final = 600

_OTHERS: Final = "more refused calls than are shown one by one"
_OTHER_KEYS: Final = "more keys than are shown one by one"
_LOST: Final = "the queue had no room for events"


# Refused calls, and streams that ended as if they had been.
_REFUSALS: Final = ("refused", "ended")
_COMMANDS: Final = ("admin", "change")
# So many texts of an identity are those of who, what and on which table.
_KEYLESS: Final = 8


class AuditQueue:
    """Holds rows until they are written. `add` is O(1).

    Invariants: at most `rows_max` rows, and two that say what was lost; `opened_s` never falls from row to row.
    """

    def __init__(
        self, clock: Clock, *, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX, window_s: float = WINDOW_S
    ) -> None:
        """`window_s`: how long a row takes equal events."""
        self._clock = clock
        self._window_s = window_s
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._rows: deque[AuditRow] = deque()
        self._open: dict[Hashable, AuditRow] = {}
        """By what makes events equal; the newest row of each."""
        self._bytes = 0
        self._unproven = 0
        """Rows of callers that proved nothing."""
        self._begun: dict[tuple[AuditResult, str], int] = {}
        """Rows that were begun in this second: of refused calls, ended streams, and reads and writes; by user."""
        self._second_s = 0.0
        self._sequence = 0
        self._lost: AuditRow | None = None
        """The row that counts what is lost now."""
        self._ending = False
        self.lost = 0
        """Events that were lost since the process began."""

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, event: AuditEvent) -> None:
        """Take an event: into the row of an equal one, as a row of its own, or as one that is lost."""
        now_s = self._clock.monotonic_s()
        event = event.trimmed()
        identity = _identity(event)
        if self._counted(identity, now_s):
            return
        if event.result in _REFUSALS and not self._may_begin(event, REFUSED_KEYS_PER_S, now_s):
            identity = identity[:_KEYLESS]
            if self._summed(identity, event, now_s):
                return
            if not self._may_begin(event, REFUSED_ROWS_PER_S, now_s):
                event = _others(event)
                identity = _identity(event)
                if self._counted(identity, now_s):
                    return
        elif _is_access(event) and not self._may_begin(event, ACCESS_ROWS_PER_S, now_s):
            event = event._replace(key="", detail=_OTHER_KEYS)
            identity = _identity(event)
            if self._counted(identity, now_s):
                return
        self._take(event, identity, now_s)

    def _take(self, event: AuditEvent, identity: Hashable, now_s: float) -> None:
        """Begin a row, if there is room for it."""
        size = _size(event)
        unproven = event.proof == "nothing"
        quarters = 3 if unproven or _is_access(event) else 4
        if self._is_full(size, quarters) or (unproven and 2 * self._unproven >= self._rows_max):
            self._lose(now_s)
            return
        row = self._open[identity] = self._begin(event, identity, size, now_s)
        self._bytes += row.size
        self._unproven += unproven

    def _counted(self, identity: Hashable, now_s: float) -> AuditRow | None:
        """The row of equal events that has counted this one; None: there is none."""
        row = self._open.get(identity)
        if row is None or row.sealed or now_s - row.opened_s >= self._window_s:
            return None
        row.count += 1
        row.until_ms = self._clock.wall_ms()
        return row

    def _summed(self, identity: Hashable, event: AuditEvent, now_s: float) -> bool:
        """Does a row count the event whose events may differ in keys and details? It is true of all of them."""
        row = self._counted(identity, now_s)
        if row is not None and (shared := _shared(row.event, event)) is not row.event:
            self._bytes += _size(shared) - row.size
            row.event, row.size = shared, _size(shared)
        return row is not None

    def _is_full(self, size: int, quarters: int) -> bool:
        """Is there no room for a row in so many quarters of the queue?"""
        return 4 * len(self._rows) >= quarters * self._rows_max or 4 * (self._bytes + size) > quarters * self._bytes_max

    def _may_begin(self, event: AuditEvent, rows_max: int, now_s: float) -> bool:
        """May the event begin a row in this second, in which one user's of its result begin so many?"""
        if now_s - self._second_s >= 1.0:
            self._begun.clear()
            self._second_s = now_s
        who = (event.result, _payer(event))
        count = self._begun.get(who, 0)
        if count >= rows_max:
            return False
        self._begun[who] = count + 1
        return True

    def _lose(self, now_s: float) -> None:
        self.lost += 1
        if self._lost is not None and not self._lost.sealed:
            self._lost.count += 1
            self._lost.until_ms = self._clock.wall_ms()
        else:
            self._lost = self._begin(AuditEvent("lost", "lost", detail=_LOST), None, 0, now_s)

    def _begin(self, event: AuditEvent, identity: Hashable, size: int, now_s: float) -> AuditRow:
        self._sequence += 1
        row = AuditRow(event, identity, size, self._sequence, self._clock.wall_ms(), now_s)
        self._rows.append(row)
        return row

    def ready(self, limit: int) -> list[AuditRow]:
        """The first rows whose time is over, at most `limit`; they stay until `wrote`, and do not change any more."""
        now_s = self._clock.monotonic_s()
        found: list[AuditRow] = []
        for row in islice(self._rows, limit):
            if not row.sealed and not self._ending and now_s - row.opened_s < self._window_s:
                break
            row.sealed = True
            found.append(row)
        return found

    def wait_s(self) -> float | None:
        """Seconds until the first row is ready; None: there is none."""
        if not self._rows:
            return None
        first = self._rows[0]
        if first.sealed or self._ending:
            return 0.0
        return max(0.0, first.opened_s + self._window_s - self._clock.monotonic_s())

    def wrote(self, count: int) -> None:
        """The first `count` rows are on stable storage: forget them. They were given by `ready`."""
        for _ in range(count):
            row = self._rows.popleft()
            assert row.sealed, f"row {row.sequence} was forgotten before it was given"
            if row is self._lost:
                self._lost = None
            if row.identity is None:
                continue
            self._bytes -= row.size
            self._unproven -= row.event.proof == "nothing"
            if self._open.get(row.identity) is row:
                del self._open[row.identity]

    def end(self) -> None:
        """Wait for no second to be over any more: the server stops."""
        self._ending = True


def _is_access(event: AuditEvent) -> bool:
    """Is it a read or a write of a table that the settings choose?"""
    return event.result == "allowed" and event.kind in ("read", "write")


def _payer(event: AuditEvent) -> str:
    """Who is let begin only so many rows."""
    return "" if event.proof == "nothing" else event.user


def _identity(event: AuditEvent) -> tuple[Hashable, ...]:
    """What equal events have in common."""
    kind = event.kind
    who = (kind, event.result, event.user, event.proof, event.credential, event.address, event.action, event.table)
    return (*who, event.detail, event.offset) if kind in _COMMANDS else (*who, event.key, event.detail)


def _shared(first: AuditEvent, event: AuditEvent) -> AuditEvent:
    """What a sum says that was true of the first one, and is true of the event as well."""
    if first.key == event.key and first.detail == event.detail:
        return first
    many = first.key != event.key or first.detail.startswith(_OTHER_KEYS)
    reason = event.detail if first.detail in (event.detail, _of_many(event.detail)) else ""
    key, detail = "" if many else first.key, _of_many(reason) if many else reason
    return first if first.key == key and first.detail == detail else first._replace(key=key, detail=detail)


def _of_many(reason: str) -> str:
    return f"{_OTHER_KEYS}: {reason}"[:TEXT_MAX] if reason else _OTHER_KEYS


def _size(event: AuditEvent) -> int:
    return _ROW_BYTES + sum(map(len, event[:10]))


def _others(event: AuditEvent) -> AuditEvent:
    """The event of all refused calls of one user, or of nobody, that get no row of their own."""
    user = _payer(event)
    proof = event.proof if user else "nothing"
    return AuditEvent("call", event.result, user, proof, detail=_OTHERS, version=event.version)
