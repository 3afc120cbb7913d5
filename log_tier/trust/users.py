"""Users, their tokens, and roles, as the catalog holds them. Immutable; no secret is among them in plain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.identifiers import Offset
from log_tier.trust.grants import Grant, Right
from log_tier.trust.quotas import NO_QUOTA, Quota
from log_tier.trust.rights import NO_RIGHTS, Rights

__all__ = ["ApiToken", "TrustRole", "TrustState", "User"]


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A long random secret of a user, by which a program proves itself."""

    id: str
    sha256: str = field(repr=False)
    """64 hex digits."""
    expires_ms: int = 0
    """The first millisecond of log time at which it is void; 0: never."""

    def is_void_at(self, log_time_ms: int) -> bool:
        """Has it expired?"""
        return 0 < self.expires_ms <= log_time_ms


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who can be granted something."""

    name: str
    password: str = field(default="", repr=False)
    """The password's hash, an opaque string; empty: no password proves this user."""
    tokens: tuple[ApiToken, ...] = ()
    grants: tuple[Grant, ...] = ()
    roles: tuple[str, ...] = ()

    def token(self, token_id: str) -> ApiToken | None:
        """A token by its id; None where the user has no such one."""
        return next((token for token in self.tokens if token.id == token_id), None)


@dataclass(frozen=True, slots=True)
class TrustRole:
    """A named set of grants."""

    name: str
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class TrustState:
    """All users and roles at one version of the catalog."""

    users: PersistentMap[str, User] = field(default_factory=PersistentMap)
    roles: PersistentMap[str, TrustRole] = field(default_factory=PersistentMap)
    quotas: PersistentMap[str, Quota] = field(default_factory=PersistentMap)
    """By `user:NAME`, `table:NAME` and `table:PREFIX*`."""

    @property
    def is_closed(self) -> bool:
        """Is there a user? Then nobody passes without proof."""
        return len(self.users) > 0

    def grants_of(self, name: str) -> Iterator[Grant]:
        """A user's own grants, then those of its roles. None for an unknown user."""
        user = self.users.get(name)
        if user is None:
            return
        yield from user.grants
        for role in user.roles:
            yield from self.roles[role].grants

    def rights_of(self, name: str, version: Offset) -> Rights:
        """A user's compiled rights; `NO_RIGHTS` for an unknown user. O(its grants)."""
        return Rights(self.grants_of(name), version, user=name) if name in self.users else NO_RIGHTS

    def is_superuser(self, name: str) -> bool:
        """Has the user admin on `*`? O(its grants)."""
        return any(Right.ADMIN in grant.rights and grant.table == "*" for grant in self.grants_of(name))

    def quota_of_user(self, name: str) -> Quota:
        """A user's quota; `NO_QUOTA` where it has none."""
        return self.quotas.get(f"user:{name}") or NO_QUOTA

    def quota_of_table(self, name: str) -> tuple[str, Quota]:
        """The quota of a table by its name, else by the longest prefix of it that has one, and whose it is: all
        tables that it names share it. O(length of the name).
        """
        subjects = (f"table:{name}", *(f"table:{name[:length]}*" for length in range(len(name), -1, -1)))
        for subject in subjects:
            if (quota := self.quotas.get(subject)) is not None:
                return subject, quota
        return "", NO_QUOTA

    def with_user(self, user: User) -> TrustState:
        """The state with one user more, or with another entry of one."""
        return replace(self, users=self.users.with_entry(user.name, user))

    def with_role(self, role: TrustRole) -> TrustState:
        """The state with one role more, or with another entry of one."""
        return replace(self, roles=self.roles.with_entry(role.name, role))
