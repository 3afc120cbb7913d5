"""Quotas in force at one server: what users and tables have taken, and who has to wait.

A call is let in where something is left of its user's quota and of those of its tables, and takes one call and its
request's bytes. The reply's bytes are taken when they are known; the next call waits for them. So one large reply
passes, and in the long run nobody gets more than its quota. A server of the cluster has none: the first server that a
user reached has counted the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final, Literal, NamedTuple, Protocol

from log_tier.access.quotas.open_connections import OpenConnections
from log_tier.access.quotas.token_bucket import TokenBucket
from log_tier.concurrency.clocks import Clock
from log_tier.model.errors import Overloaded
from log_tier.rpc.messages.slow_call_sink import CallEnd
from log_tier.trust.caller import Caller
from log_tier.trust.quotas import NO_QUOTA, Quota
from log_tier.trust.users import TrustState

__all__ = ["QuotaHold", "QuotaKeeper", "Stream"]

Stream = Literal["scans", "watches"]
"""What a call opens that a quota bounds, by the quota's field."""

_REFUSALS_S: Final = 100
"""Refusals a second that nobody waits for, of a quota with fewer calls or with none."""

_UNHEARD_S: Final = 1.0
"""A connection is heard again after so long, at the latest: what it closes, or sends to be let go, is noticed."""

_KEPT_S: Final = 10.0
"""A refusal of a call of gRPC is kept back so long at most."""

_FOUND_MAX: Final = 10_000
"""Callers with tables whose quotas are remembered."""

_BOUNDS: Final = ("calls_s", "bytes_in_s", "bytes_out_s")
_WORDS: Final = {
    "calls_s": "calls a second",
    "bytes_in_s": "bytes of requests a second",
    "bytes_out_s": "bytes of replies a second",
}


class _Bounds(NamedTuple):
    """The buckets of one quota; None: no bound."""

    subject: str
    quota: Quota
    buckets: tuple[TokenBucket | None, ...]


class FollowedTrust(Protocol):
    """The users and quotas of now. See `Gate`."""

    @property
    def trust(self) -> TrustState: ...
    def on_change(self, changed: Callable[[], None]) -> Callable[[], None]: ...


class QuotaKeeper:
    """Counts what is taken of the quotas that the gate's catalog has, at all endpoints of a server. Belongs to one
    event loop; O(1) for each call of one table.
    """

    def __init__(self, gate: FollowedTrust, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._bounds: dict[str, _Bounds] = {}
        self._found: dict[tuple[str, tuple[str, ...]], Sequence[_Bounds]] = {}
        """What `_bounds_of` has found since the quotas changed last, by caller and tables."""
        self._open: dict[tuple[str, Stream], int] = {}
        """How many streams are open, by subject and kind."""
        self._refusals: dict[str, TokenBucket] = {}
        """What is given of refusals to each user that was refused since the quotas changed last."""
        self._early: dict[str, TokenBucket] = {}
        """The same for calls of gRPC, which are refused before their message is read."""
        self.has_some = False
        """Is there a quota of anybody?"""
        self.connections = OpenConnections(lambda user: gate.trust.quota_of_user(user).connections, clock)
        """Of users, whether or not they have a quota."""
        self._look()
        gate.on_change(self._look)

    def hold(
        self,
        caller: Caller,
        tables: Sequence[str],
        size: Callable[[], int],
        *,
        stream: Stream | None = None,
        goes_on: bool = False,
    ) -> QuotaHold | None:
        """Take what a call takes of its quotas; None where it has none. `size`: counts the bytes of the request.
        `stream`: what the call opens. `goes_on`: it belongs to what was let in before, and is not refused.

        Raises `Overloaded` with `wait_ms`, and takes nothing.
        """
        if not self.has_some or caller.proof == "server":
            return None
        bounds = self._bounds_of(caller, tables)
        if not bounds:
            return None
        now = self._clock.monotonic_s()
        if not goes_on and (refusal := _used_up(bounds, now)) is not None:
            raise refusal
        for subject, quota, _ in bounds:
            if stream is not None and 0 < (most := getattr(quota, stream)) <= self._open.get((subject, stream), 0):
                raise _refusal(subject, f"{most} open {stream}", 0)
        for _, _, (calls, bytes_in, _) in bounds:
            if calls is not None:
                calls.take(1, now)
            if bytes_in is not None:
                bytes_in.take(size(), now)
        opened = () if stream is None else tuple((each.subject, stream) for each in bounds)
        for each in opened:
            self._open[each] = self._open.get(each, 0) + 1
        return QuotaHold(self, tuple(each.buckets[2] for each in bounds if each.buckets[2] is not None), opened)

    def early_refusal(self, caller: Caller) -> tuple[Overloaded, float] | None:
        """Why no call of a caller is let in now, whatever it asks, by the caller's own quota; and how many seconds to
        keep the refusal back: 0 for the first hundred, then as long as a hundred a second take. None: it may be let in.

        A call that is let in is counted by `hold`, with its tables' quotas.
        """
        if not self.has_some or caller.proof == "server":
            return None
        quota = self._gate.trust.quota_of_user(caller.name)
        if quota == NO_QUOTA:
            return None
        now = self._clock.monotonic_s()
        refusal = _used_up((self._of(f"user:{caller.name}", quota),), now)
        if refusal is None:
            return None
        early = self._early.get(caller.name)
        if early is None:
            early = self._early[caller.name] = TokenBucket(_REFUSALS_S, now)
        if (kept_s := early.wait_s(now)) < _KEPT_S:  # beyond, its debt grows no more
            early.take(1, now)
        return refusal, kept_s

    def refused(self, caller: Caller, tables: Sequence[str]) -> float:
        """A call was refused, and its caller may send the next one without waiting. How many seconds its endpoint had
        better not listen to it: 0 for as many refusals in a second as calls are allowed, then until it is no more.
        """
        now = self._clock.monotonic_s()
        bucket = self._refusals.get(caller.name)
        if bucket is None:
            calls_s = max((each.quota.calls_s for each in self._bounds_of(caller, tables)), default=0)
            bucket = self._refusals[caller.name] = TokenBucket(max(calls_s, _REFUSALS_S), now)
        bucket.take(1, now)
        return min(bucket.wait_s(now), _UNHEARD_S)

    def counts(self, caller: Caller, tables: Sequence[str]) -> bool:
        """Is there a quota of the caller or of these tables?"""
        return self.has_some and len(self._bounds_of(caller, tables)) > 0

    def sent(self, caller: Caller, tables: Sequence[str], size: int) -> None:
        """Take the bytes of replies that no `QuotaHold` counts."""
        if not self.has_some:
            return
        now = self._clock.monotonic_s()
        for _, _, (_, _, bytes_out) in self._bounds_of(caller, tables):
            if bytes_out is not None:
                bytes_out.take(size, now)

    def now(self) -> float:
        """The clock of the buckets, in seconds."""
        return self._clock.monotonic_s()

    def close_stream(self, opened: Sequence[tuple[str, Stream]]) -> None:
        """A stream has ended that `hold` had counted for these subjects."""
        for each in opened:
            left = self._open[each] - 1
            if left:
                self._open[each] = left
            else:
                del self._open[each]

    def _bounds_of(self, caller: Caller, tables: Sequence[str]) -> Sequence[_Bounds]:
        asked = caller.name, tuple(tables)
        found = self._found.get(asked)
        if found is None:
            if len(self._found) >= _FOUND_MAX:
                self._found.clear()
            found = self._found[asked] = self._find_bounds(caller, tables)
        return found

    def _find_bounds(self, caller: Caller, tables: Sequence[str]) -> Sequence[_Bounds]:
        """O(length of the tables' names)."""
        trust = self._gate.trust
        wanted = [(f"user:{caller.name}", trust.quota_of_user(caller.name)), *map(trust.quota_of_table, set(tables))]
        return tuple(self._of(subject, quota) for subject, quota in dict(wanted).items() if quota != NO_QUOTA)

    def _of(self, subject: str, quota: Quota) -> _Bounds:
        known = self._bounds.get(subject)
        if known is not None and known.quota == quota:
            return known
        now = self._clock.monotonic_s()
        rates = (getattr(quota, name) for name in _BOUNDS)
        made = _Bounds(subject, quota, tuple(TokenBucket(rate, now) if rate else None for rate in rates))
        self._bounds[subject] = made
        return made

    def _look(self) -> None:
        """Forget the buckets of quotas that are gone. One that was changed begins anew."""
        quotas = self._gate.trust.quotas
        self.has_some = len(quotas) > 0
        self._found.clear()
        self._refusals.clear()
        self._early.clear()
        for subject in [subject for subject in self._bounds if subject not in quotas]:
            del self._bounds[subject]


class QuotaHold:
    """What a call under way holds of its quotas."""

    __slots__ = ("_bytes_out", "_keeper", "_opened")

    def __init__(
        self, keeper: QuotaKeeper, bytes_out: Sequence[TokenBucket], opened: Sequence[tuple[str, Stream]]
    ) -> None:
        self._keeper = keeper
        self._bytes_out = bytes_out
        self._opened = opened

    @property
    def counts_replies(self) -> bool:
        """Are the reply's bytes of interest?"""
        return len(self._bytes_out) > 0

    def sent(self, size: int) -> float:
        """Take the bytes of a reply. How many seconds a stream has to wait before its next one."""
        now = self._keeper.now()
        for bucket in self._bytes_out:
            bucket.take(size, now)
        return max((bucket.wait_s(now) for bucket in self._bytes_out), default=0.0)

    def release(self, _end: CallEnd = "done") -> None:
        """The call is over, however it ended."""
        self._keeper.close_stream(self._opened)


def _used_up(bounds: Sequence[_Bounds], now: float) -> Overloaded | None:
    """The refusal by the bound that takes longest to give something again: after that, none of them refuses."""
    longest: tuple[float, _Bounds, str] | None = None
    for each in bounds:
        for name, bucket in zip(_BOUNDS, each.buckets, strict=True):
            if bucket is not None and (wait_s := bucket.wait_s(now)) > (0 if longest is None else longest[0]):
                longest = wait_s, each, name
    if longest is None:
        return None
    wait_s, (subject, quota, _), name = longest
    return _refusal(subject, f"{getattr(quota, name)} {_WORDS[name]}", wait_s)


def _refusal(subject: str, bound: str, wait_s: float) -> Overloaded:
    """With a time that is long enough in the words as well: clients of the Redis protocol have nothing else."""
    wait = f" in {ceil(wait_s * 100) / 100:.2f} s" if wait_s else " when one of them has ended"
    return Overloaded(
        f"{subject} has a quota of {bound} at this server: try again{wait}, or have an administrator raise it",
        wait_ms=int(wait_s * 1000) + 1,
    )
