"""The one place that decides, behind all endpoints: `Gate.decide(caller, demand)`.

The gate is open while the catalog holds no user, and closed from the first one on. It follows the catalog's maps: a
caller's rights are compiled once for each version that changed users, and a registered callback is called in the same
turn in which the map of a revocation comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from log_tier.access.demands import (
    ANY_USER,
    CLUSTER_ADMIN,
    Demand,
    KeyDemand,
    PrefixDemand,
    RangeDemand,
)
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.errors import PermissionDenied, Unauthenticated
from log_tier.model.identifiers import Offset
from log_tier.trust.caller import Caller, Proof
from log_tier.trust.rights import NO_RIGHTS, Rights
from log_tier.trust.users import TrustState

__all__ = ["NOBODY", "Gate"]

NOBODY: Final = Caller("", "nothing", NO_RIGHTS)
"""A caller that proved nothing."""


class Gate:
    """Decides by the newest map that `follow` was given. Belongs to one event loop.

    Invariant: every entry of `_rights` was compiled from `_trust`.
    """

    def __init__(self) -> None:
        self._trust = TrustState()
        self._version = Offset(-1)
        self._rights: dict[str, Rights] = {}
        self._changed: list[Callable[[], None]] = []

    @property
    def is_closed(self) -> bool:
        """Does the catalog hold a user?"""
        return self._trust.is_closed

    @property
    def version(self) -> Offset:
        """The version of the catalog by which it decides."""
        return self._version

    @property
    def trust(self) -> TrustState:
        """The users and roles by which it decides."""
        return self._trust

    def follow(self, cluster: ClusterMap) -> None:
        """Decide by this map from now on, and call what is registered where its users differ. An older one is void."""
        if cluster.version <= self._version:
            return
        self._version = cluster.version
        if cluster.trust is self._trust or cluster.trust == self._trust:
            return
        self._trust = cluster.trust
        self._rights.clear()
        for changed in tuple(self._changed):
            changed()

    def on_change(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each change of users, roles or grants. Returns what ends that; idempotent."""
        self._changed.append(changed)

        def leave() -> None:
            if changed in self._changed:
                self._changed.remove(changed)

        return leave

    def caller(self, name: str, proof: Proof, *, token_id: str = "") -> Caller:
        """Somebody who proved this, with the rights of now. A server has none of a user's."""
        rights = NO_RIGHTS
        if proof not in ("nothing", "server"):
            known = self._rights.get(name)
            if known is None:
                known = self._rights[name] = self._trust.rights_of(name, self._version)
            rights = known
        return Caller(name, proof, rights, token_id)

    def decide(self, caller: Caller, demand: Demand) -> Offset:
        """The version by which the call is allowed. The rights are those of now, not those of the caller's proof.

        Raises `Unauthenticated` for one who proved nothing or is no user any more or whose token was revoked, and
        `PermissionDenied`, which says who lacks what. Under 2 µs, whatever the number of grants.
        """
        if not self._trust.is_closed or caller.proof == "server":
            return self._version
        user = self._trust.users.get(caller.name)
        if caller.proof == "nothing" or user is None:
            raise Unauthenticated(
                f"{caller} is no user at version {self._version} of the catalog: give a token or a password"
            )
        if caller.proof == "token" and user.token(caller.token_id) is None:
            raise Unauthenticated(f"the token {caller.token_id} of {caller} was revoked: give another one")
        if not _covers(self.caller(caller.name, caller.proof).rights, demand):
            raise PermissionDenied(
                f"{caller} may not do this at version {self._version} of the catalog: what is missing is "
                f"'{demand.missing}'"
            )
        return self._version


def _covers(rights: Rights, demand: Demand) -> bool:
    match demand:
        case KeyDemand():
            return all(rights.may(demand.right, demand.table, key) for key in demand.keys) and (
                bool(demand.keys) or rights.sees(demand.table)
            )
        case PrefixDemand():
            return rights.may_prefix(demand.right, demand.table, demand.prefix)
        case RangeDemand():
            return rights.may_range(demand.right, demand.table, demand.start, demand.end)
    return demand is ANY_USER or (demand is CLUSTER_ADMIN and rights.is_superuser)
