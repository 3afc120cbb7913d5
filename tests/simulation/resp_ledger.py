"""What clients of the Redis protocol heard, and what the keys hold at the end: the checker of the RESP endpoint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simulation.book import Broken

__all__ = ["Ledger", "Versions"]


@dataclass
class _Counted:
    """Increments of one key."""

    granted: set[int] = field(default_factory=set)
    """What the replies said."""
    unknown: int = 0
    refused: int = 0


class Versions:
    """The version of a key that one program alone writes, one write at a time, at whatever endpoint."""

    def __init__(self) -> None:
        self.version: int | None = None
        """What its last write was given; None: it has written nothing yet, or nobody knows."""

    def asks(self, shown: int) -> tuple[int, bool]:
        """The version for the next write, and is it sure to be the key's? `shown`: by the endpoint, which may be
        behind.
        """
        return (shown, False) if self.version is None else (self.version, True)

    def answered(self, reply: object, outcome: str, *, sure: bool) -> None:
        """`outcome` of that write: granted, denied, refused or unknown. Raises `Broken`."""
        if outcome == "denied" and sure:
            raise Broken("one after the other", f"the key with version {self.version} is said to have another one")
        if outcome == "granted":
            assert isinstance(reply, int), reply
            if self.version is not None and reply <= self.version:
                raise Broken("one after the other", f"version {self.version} is followed by {reply}")
            self.version = reply
        elif outcome != "refused":
            self.version = None


class Ledger:
    """Everything that was sent and answered, over all connections and all lives of the server."""

    def __init__(self) -> None:
        self._counters: dict[bytes, _Counted] = defaultdict(_Counted)
        self._tokens: dict[bytes, dict[bytes, str]] = defaultdict(dict)
        """By key of a log: token → granted, unknown or refused."""
        self._locks: dict[bytes, dict[bytes, str]] = defaultdict(dict)
        """By lock: who asked → the reply."""
        self._own: dict[bytes, list[bytes | None]] = defaultdict(lambda: [None])
        """By key that one connection writes: what it holds, and what it may hold by writes of which nobody knows."""

    # --- counters: INCR, and WATCH … EXEC

    def counted(self, key: bytes, value: int) -> None:
        """An increment was granted and gave `value`."""
        counter = self._counters[key]
        if value in counter.granted:
            raise Broken("one after the other", f"two increments of {key!r} gave {value}")
        counter.granted.add(value)

    def count_unknown(self, key: bytes) -> None:
        """Nobody knows about an increment."""
        self._counters[key].unknown += 1

    # --- logs: APPEND

    def appended(self, key: bytes, token: bytes, outcome: str) -> None:
        """A token was sent; `outcome`: granted, unknown or refused."""
        self._tokens[key][token] = outcome

    # --- locks: SET NX

    def locked(self, key: bytes, who: bytes, outcome: str) -> None:
        """`who` tried to get a lock; `outcome`: granted, denied, unknown or refused."""
        asked = self._locks[key]
        if outcome == "granted" and "granted" in asked.values():
            raise Broken("one after the other", f"two got the lock {key!r}: {who!r} is the second")
        asked[who] = outcome

    # --- keys of one connection

    def wrote(self, key: bytes, value: bytes | None, outcome: str) -> None:
        """The only writer of a key wrote it; None: deleted it."""
        if outcome == "granted":
            self._own[key] = [value]
        elif outcome == "unknown":
            self._own[key].append(value)

    def read(self, key: bytes, found: bytes | None) -> None:
        """Its only writer read it, with nothing of its own under way.

        A write of which nobody knows, and which is not shown, may be in the log all the same, and show later: the log
        may have stopped with it.
        """
        possible = self._own[key]
        if found not in possible:
            raise Broken("session", f"{key!r} shows {found!r} to its writer, which wrote {possible[-3:]}")
        self._own[key] = possible[possible.index(found) :]

    # --- pairs: MULTI … EXEC

    @staticmethod
    def pair(keys: Sequence[bytes], found: Sequence[bytes | None]) -> None:
        """Keys that are only written together were read together."""
        if len(set(found)) > 1:
            raise Broken("atomic", f"{list(keys)} are written together and show {list(found)}")

    # --- the end

    def keys(self) -> list[bytes]:
        """What `check` needs."""
        return sorted({*self._counters, *self._tokens, *self._locks, *self._own})

    def check(self, found: Mapping[bytes, bytes | None]) -> None:
        """Hold what the keys hold against the replies. O(calls)."""
        for key, counter in self._counters.items():
            value, granted = int(found[key] or 0), len(counter.granted)
            if not max((granted, *counter.granted)) <= value <= granted + counter.unknown:
                raise Broken(
                    "acknowledged",
                    f"{key!r} is {value} after {granted} increments, up to {max(counter.granted, default=0)}, and "
                    f"{counter.unknown} of which nobody knows",
                )
        for key, tokens in self._tokens.items():
            self._check_log(key, tokens, found[key] or b"")
        for key, asked in self._locks.items():
            self._check_lock(key, asked, found[key])
        for key, possible in self._own.items():
            if found[key] not in possible:
                raise Broken("acknowledged", f"{key!r} holds {found[key]!r}, and one of {possible} was written")

    @staticmethod
    def _check_log(key: bytes, tokens: Mapping[bytes, str], held: bytes) -> None:
        parts = held.split(b";")[:-1]
        for token in dict.fromkeys((*parts, *tokens)):
            outcome, count = tokens.get(token, "nobody's"), parts.count(token)
            allowed = {"granted": (1,), "unknown": (0, 1)}.get(outcome, (0,))
            if count not in allowed:
                raise Broken("acknowledged", f"{token!r} ({outcome}) is {count} times in {key!r}")

    @staticmethod
    def _check_lock(key: bytes, asked: Mapping[bytes, str], held: bytes | None) -> None:
        winner = next((who for who, outcome in asked.items() if outcome == "granted"), None)
        possible = {winner} if winner else {who for who, outcome in asked.items() if outcome == "unknown"}
        if winner is None and "denied" not in asked.values():
            possible.add(None)  # type: ignore[arg-type]
        if held not in possible:
            raise Broken("acknowledged", f"the lock {key!r} is {held!r}'s; possible are {sorted(map(str, possible))}")
