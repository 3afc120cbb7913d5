"""Bugs to plant where calls are let in: rights that outlive their revocation, proofs that outlive their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from log_tier.access import expiry_timer
from log_tier.access.expiry_timer import ExpiryTimer
from log_tier.access.gate import Gate
from log_tier.access.guard import GrpcGuard
from log_tier.catalog.cluster_map import ClusterMap
from simulation.planted import Patches

__all__ = ["PLANTED_IN_USERS"]


def _compiled_rights_are_kept() -> Patches:
    inner = Gate.follow

    def follow(self: Gate, cluster: ClusterMap) -> None:
        good, rights = dict(self._good), dict(self._rights)
        inner(self, cluster)
        self._good |= good
        self._rights |= rights

    return [(Gate, "follow", follow)]


def _rights_of_the_proof_count() -> Patches:
    inner = Gate._examine

    def examine(self: Gate, caller: Any) -> Any:
        return inner(self, caller)._replace(rights=caller.rights)

    return [(Gate, "_examine", examine)]


def _streams_are_not_decided_again() -> Patches:
    def decide_again(self: GrpcGuard) -> None:
        self.is_closed = self._gate.is_closed

    return [(GrpcGuard, "_decide_again", decide_again)]


def _only_a_user_that_changed_is_looked_at() -> Patches:
    inner = Gate.follow

    def follow(self: Gate, cluster: ClusterMap) -> None:
        before, good, rights = self._trust, dict(self._good), dict(self._rights)
        inner(self, cluster)
        if before.users == self._trust.users:  # so roles have changed, or nothing
            self._good |= good
            self._rights |= rights

    return [(Gate, "follow", follow)]


def _only_own_grants_are_looked_at() -> Patches:
    inner = Gate.follow

    def follow(self: Gate, cluster: ClusterMap) -> None:
        before, rights = self._trust, dict(self._rights)
        inner(self, cluster)
        users, earlier = self._trust.users, before.users
        for name, compiled in rights.items():
            if name in users and name in earlier and users[name].grants == earlier[name].grants:
                self._rights[name] = compiled

    return [(Gate, "follow", follow)]


def _proofs_do_not_expire() -> Patches:
    return [(Gate, "expires_ms", lambda self, caller: 0)]


def _a_loops_timer_is_believed() -> Patches:
    def look(self: ExpiryTimer) -> None:
        if self._clock.wall_ms() >= self._expires_ms:
            self._expired()

    return [(ExpiryTimer, "_look", look), (expiry_timer, "LOOK_S", 1e9)]


PLANTED_IN_USERS: Final[dict[str, Callable[[], Patches]]] = {
    "compiled rights are kept when grants change": _compiled_rights_are_kept,
    "a call has the rights of when its caller proved itself": _rights_of_the_proof_count,
    "an open watch outlives the revocation of its grant": _streams_are_not_decided_again,
    "rights are not compiled anew when a role changes": _only_a_user_that_changed_is_looked_at,
    "rights are compiled anew only when a user's own grants change": _only_own_grants_are_looked_at,
    "a token that was good once stays good": _proofs_do_not_expire,
    "a stream outlives its token where a clock was set back": _a_loops_timer_is_believed,
}
