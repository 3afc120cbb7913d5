"""Bugs to plant where connections of the Redis protocol are let in: rights of another time, of another key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from log_tier.trust.grants import Right
from log_tier.trust.rights import NO_RIGHTS, Rights
from router.endpoints.resp.commands.users import access_rules
from router.endpoints.resp.connection.admission import Admission
from router.endpoints.resp.connection.guarded_session import GuardedSession
from simulation.planted import Patches

__all__ = ["PLANTED_IN_RESP_USERS"]


def _rights_of_the_login_count() -> Patches:
    inner = Admission.look

    def look(self: Admission) -> None:
        if self.rights is NO_RIGHTS:
            inner(self)

    return [(Admission, "look", look)]


def _subscriptions_are_not_looked_at_again() -> Patches:
    return [(GuardedSession, "recheck", lambda self: None)]


def _first_key_stands_for_all() -> Patches:
    def covers(rights: Rights, right: Right, table: str, keys: Sequence[bytes]) -> bool:
        return rights.may(right, table, keys[0])

    return [(access_rules, "covers", covers)]


def _stretch_is_judged_by_its_first_command() -> Patches:
    inner = Admission._admit_alike

    def admit_alike(self: Admission) -> bool:
        rest = list(self.arrived)[1:]
        while len(self.arrived) > 1:
            self.arrived.pop()
        is_let_in = inner(self)
        (self._queue if is_let_in else self.arrived).extend(rest)
        return is_let_in

    return [(Admission, "_admit_alike", admit_alike)]


PLANTED_IN_RESP_USERS: Final[dict[str, Callable[[], Patches]]] = {
    "an open connection keeps the rights of when it came in": _rights_of_the_login_count,
    "a subscription outlives the revocation of its grant": _subscriptions_are_not_looked_at_again,
    "a command on several keys is judged by the first": _first_key_stands_for_all,
    "a stretch of commands is judged by the first": _stretch_is_judged_by_its_first_command,
}
