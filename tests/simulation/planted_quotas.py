"""Bugs to plant where quotas are kept: buckets that give too much, counts of somebody else, refusals that lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from log_tier.access.gate import Gate
from log_tier.access.guard import GrpcGuard
from log_tier.access.quotas import quota_keeper
from log_tier.access.quotas.quota_keeper import QuotaHold, QuotaKeeper
from log_tier.access.quotas.token_bucket import TokenBucket
from log_tier.model.errors import Overloaded
from log_tier.rpc import checked
from router.endpoints.resp.commands import transactions
from router.endpoints.resp.connection.client import Client
from router.endpoints.resp.server.resp_server import RespServer
from simulation.planted import Patches

__all__ = ["PLANTED_IN_QUOTAS", "PLANTED_IN_RESP_QUOTAS"]


def _refills_twice() -> Patches:
    inner = TokenBucket._fill

    def fill(self: TokenBucket, now: float) -> None:
        passed_s = max(0.0, now - self._at)
        inner(self, now)
        self._left = min(float(self._rate), self._left + passed_s * self._rate)

    return [(TokenBucket, "_fill", fill)]


def _charged_to_another() -> Patches:
    inner = QuotaKeeper._bounds_of

    def bounds_of(self: QuotaKeeper, caller: Any, tables: Sequence[str]) -> Any:
        found = inner(self, caller, tables)
        return found or list(self._bounds.values())[:1]

    return [(QuotaKeeper, "_bounds_of", bounds_of)]


def _done_before_it_is_counted() -> Patches:
    inner = checked._single

    def single(method: str, answer: Any, parse: Any, refusals: Any, guard: Any, slow: Any) -> Any:
        if guard is None or not method.endswith("KeyValue/Write"):
            return inner(method, answer, parse, refusals, guard, slow)
        deciding = guard.admitting(method)
        admit = None if deciding is None else checked._aborting(deciding)
        done = inner(method, answer, parse, refusals, None, slow)

        async def answered(request: Any, context: Any) -> Any:
            reply = await done(request, context)
            if admit is not None and guard.is_closed and (held := await admit(request, context)) is not None:
                held.release("done")
            return reply

        return answered

    return [(checked, "_single", single), (GrpcGuard, "early", lambda self, method, metadata: None)]


def _removed_quota_stays() -> Patches:
    looks, finds = QuotaKeeper._look, QuotaKeeper._bounds_of

    def look(self: QuotaKeeper) -> None:
        kept = dict(self._bounds)
        looks(self)
        self._bounds = kept
        self.has_some = self.has_some or len(kept) > 0

    def bounds_of(self: QuotaKeeper, caller: Any, tables: Sequence[str]) -> Any:
        known = self._bounds.get(f"user:{caller.name}")
        return finds(self, caller, tables) or ([] if known is None else [known])

    return [(QuotaKeeper, "_look", look), (QuotaKeeper, "_bounds_of", bounds_of)]


def _wait_of_nothing() -> Patches:
    inner = quota_keeper._refusal

    def refusal(subject: str, bound: str, wait_s: float) -> Overloaded:
        return inner(subject, bound, min(wait_s, 1e-6))

    return [(quota_keeper, "_refusal", refusal)]


def _wait_of_the_first_bound() -> Patches:
    inner = quota_keeper._used_up

    def used_up(bounds: Sequence[Any], now: float) -> Overloaded | None:
        for each in bounds:
            for number, bucket in enumerate(each.buckets):
                alone = [bucket if number == place else None for place in range(len(each.buckets))]
                if (refusal := inner((each._replace(buckets=tuple(alone)),), now)) is not None:
                    return refusal
        return None

    return [(quota_keeper, "_used_up", used_up)]


def _replies_are_free() -> Patches:
    return [(QuotaHold, "sent", lambda self, size: 0.0)]


def _each_protocol_counts_for_itself() -> Patches:
    inner = RespServer.__init__

    def init(self: RespServer, *args: Any, gate: Gate, clock: Any, **words: Any) -> None:
        words["quotas"] = QuotaKeeper(gate, clock)
        inner(self, *args, gate=gate, clock=clock, **words)

    return [(RespServer, "__init__", init)]


def _refusal_in_a_transaction_is_forgotten() -> Patches:
    def refuse(self: Client, problem: Any) -> bool:
        return self._answer(problem)

    return [(Client, "_refuse", refuse)]


def _each_command_of_a_transaction_by_itself() -> Patches:
    inner = QuotaKeeper.hold

    def hold(self: QuotaKeeper, *args: Any, goes_on: bool = False, **words: Any) -> Any:
        return inner(self, *args, **words)

    return [(QuotaKeeper, "hold", hold)]


def _transactions_begin_at_a_price() -> Patches:
    return [(transactions, "_free", lambda client: transactions._OK)]


def _refusals_take_bytes() -> Patches:
    return [(Client, "leaves_free", lambda self, data: None)]


PLANTED_IN_QUOTAS: Final[dict[str, Callable[[], Patches]]] = {
    "a bucket refills twice as fast": _refills_twice,
    "who has no quota is charged to somebody else's": _charged_to_another,
    "a write is done before a quota refuses it": _done_before_it_is_counted,
    "a quota that was removed stays": _removed_quota_stays,
    "a refusal names no time to wait": _wait_of_nothing,
    "a refusal names the time of the first bound that is used up": _wait_of_the_first_bound,
    "the bytes of replies are not counted": _replies_are_free,
}

PLANTED_IN_RESP_QUOTAS: Final[dict[str, Callable[[], Patches]]] = {
    "each protocol of a server counts for itself": _each_protocol_counts_for_itself,
    "a transaction goes on without what a quota has refused": _refusal_in_a_transaction_is_forgotten,
    "the reply that refuses is paid for": _refusals_take_bytes,
    "a transaction is refused in its middle": _each_command_of_a_transaction_by_itself,
    "each try of a transaction takes bytes by its MULTI": _transactions_begin_at_a_price,
}
