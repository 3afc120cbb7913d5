"""Bugs to plant where the quotas of tables are kept: for each user, for another table, or by one protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from log_tier.access.quotas.quota_keeper import QuotaKeeper
from log_tier.trust.quotas import NO_QUOTA
from log_tier.trust.users import TrustState
from simulation.planted import Patches

__all__ = ["PLANTED_IN_RESP_TABLE_QUOTAS", "PLANTED_IN_TABLE_QUOTAS"]


def _each_user_for_itself() -> Patches:
    def bounds_of(self: QuotaKeeper, caller: Any, tables: Sequence[str]) -> Any:
        subjects = dict(map(self._gate.trust.quota_of_table, set(tables)))
        of_callers = [
            (subject, self._of(f"{subject} of {caller.name}", quota))
            for subject, quota in subjects.items()
            if quota != NO_QUOTA
        ]
        return [each._replace(subject=subject) for subject, each in of_callers]

    return [(QuotaKeeper, "_bounds_of", bounds_of)]


def _any_table_is_meant() -> Patches:
    def quota_of_table(self: TrustState, name: str) -> Any:
        return next((each for each in self.quotas.items() if each[0].startswith("table:")), ("", NO_QUOTA))

    return [(TrustState, "quota_of_table", quota_of_table)]


def _one_protocol_is_free() -> Patches:
    inner = QuotaKeeper.hold

    def hold(self: QuotaKeeper, caller: Any, tables: Sequence[str], size: Any, **words: Any) -> Any:
        is_command = getattr(size, "__name__", "") == "<lambda>"
        return inner(self, caller, () if is_command else tables, size, **words)

    return [(QuotaKeeper, "hold", hold)]


PLANTED_IN_TABLE_QUOTAS: Final[dict[str, Callable[[], Patches]]] = {
    "each user has the quota of a table for itself": _each_user_for_itself,
    "the quota of a table counts for another table": _any_table_is_meant,
}

PLANTED_IN_RESP_TABLE_QUOTAS: Final[dict[str, Callable[[], Patches]]] = {
    "commands take nothing of the quota of their table": _one_protocol_is_free,
}
