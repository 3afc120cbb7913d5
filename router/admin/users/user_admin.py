"""The core of managing users: commands made, submitted and waited for. It knows no protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Final, NamedTuple

from log_tier.access.current import CALLER
from log_tier.access.gate import NOBODY, Gate
from log_tier.access.passwords import ARGON2, Hasher, Passwords
from log_tier.access.tokens import MintedToken, mint_token
from log_tier.catalog.catalog import Catalog
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import CommandRejected, InvalidRequest, PermissionDenied
from log_tier.model.identifiers import Offset
from log_tier.trust import trust_commands as t
from log_tier.trust.caller import Caller
from log_tier.trust.grants import Grant
from log_tier.trust.names import check_trust_name
from log_tier.trust.quotas import Quota, check_quota
from log_tier.trust.users import TrustState

__all__ = ["NewToken", "NewUser", "UserAdmin", "UsersListing"]

_TTL_MS_MAX: Final = 1000 * 365 * 86_400_000
"""A thousand years: what is longer is a mistake of units, and overflows the catalog's numbers in the end."""


class NewToken(NamedTuple):
    """A token that was just made. Its text is shown once."""

    version: Offset
    token: MintedToken
    expires_ms: int


class NewUser(NamedTuple):
    """A user that was just made."""

    version: Offset
    token: MintedToken | None
    expires_ms: int


class UsersListing(NamedTuple):
    """All users, roles and quotas at one version of the catalog."""

    version: Offset
    trust: TrustState


class UserAdmin:
    """Manages the users of one cluster. The rule of the method has let the caller in.

    Every change returns the version of the catalog from which it holds, when `gate` decides by it. Raises
    `CommandRejected` with the fold's reason, and what the catalog raises.
    """

    def __init__(
        self,
        catalog: Catalog,
        gate: Gate,
        *,
        takes_first: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        hasher: Hasher = ARGON2,
    ) -> None:
        """`takes_first`: whether a cluster without users may get its first one. Not one of several servers that cannot
        prove to each other that they are servers: they would refuse each other's calls.
        """
        self._catalog = catalog
        self._gate = gate
        self._takes_first = takes_first
        self._clock = clock
        self._passwords = Passwords(hasher)

    async def add_user(
        self, name: str, *, password: str, grants: Sequence[str], with_token: bool, ttl_ms: int
    ) -> NewUser:
        """A new user, with a first token if `with_token`, in one command. Raises `InvalidName`, `InvalidRequest`."""
        check_trust_name(name)
        texts = _grant_texts(grants)
        if not self._takes_first and not (await self._catalog.refresh()).trust.is_closed:
            raise CommandRejected(
                "the servers of this cluster have no certificates, and would refuse each other once it has users: "
                "start all of them with --certs DIR (`duramen cert init && duramen cert issue server --server HOST,…`)"
            )
        if ttl_ms and not with_token:
            raise InvalidRequest("a user without a token has none that could expire: ask for a token too")
        password_hash = await self._passwords.hash(password) if password else ""
        token = mint_token(name) if with_token else None
        expires_ms = self._expiry(ttl_ms)
        token_id, sha256 = ("", "") if token is None else (token.id, token.sha256)
        version = await self._change(
            lambda seen: t.AddUser(name, seen, password_hash, texts, token_id, sha256, expires_ms)
        )
        return NewUser(version, token, expires_ms)

    async def remove_user(self, name: str) -> Offset:
        """A user goes."""
        return await self._change(lambda seen: t.RemoveUser(name, seen))

    async def users(self) -> UsersListing:
        """What the catalog holds now. One question to the log."""
        cluster = await self._catalog.refresh()
        return UsersListing(cluster.version, cluster.trust)

    async def set_password(self, name: str, password: str) -> Offset:
        """Another password; empty: none. `name` empty: the caller's. Raises `InvalidRequest`, `PermissionDenied`."""
        name = _named_or_caller(name)
        caller = _caller()
        if caller.name == name and self._gate.expires_ms(caller) and not caller.rights.is_superuser:
            raise PermissionDenied(
                f"{caller} proved itself by a token that expires, and a password would outlive it: use a token that "
                "does not, or ask somebody with 'admin *'"
            )
        password_hash = await self._passwords.hash(password) if password else ""
        return await self._change(lambda seen: t.SetPassword(name, seen, password_hash))

    async def add_token(self, name: str, *, ttl_ms: int) -> NewToken:
        """A new token; `name` empty: the caller's. One for itself expires with the one that proved the caller, at the
        latest, unless the caller has `admin *`.
        """
        name = _named_or_caller(name)
        expires_ms = self._expiry(ttl_ms)
        caller = _caller()
        if caller.name == name and not caller.rights.is_superuser and (end := self._gate.expires_ms(caller)):
            expires_ms = min(expires_ms or end, end)
        token = mint_token(name)
        version = await self._change(lambda seen: t.AddToken(name, seen, token.id, token.sha256, expires_ms))
        return NewToken(version, token, expires_ms)

    async def revoke_token(self, name: str, token_id: str) -> Offset:
        """A token is void from now on; `name` empty: one of the caller's."""
        name = _named_or_caller(name)
        return await self._change(lambda seen: t.RevokeToken(name, seen, token_id))

    async def grant(self, to: str, grant: str) -> Offset:
        """A user or a role gets a grant. Raises `InvalidRequest` for a text that is none."""
        text = Grant.parse(grant).text
        return await self._change(lambda seen: t.GrantRights(to, seen, text))

    async def revoke(self, to: str, grant: str) -> Offset:
        """A user or a role loses a grant. Raises `InvalidRequest` for a text that is none."""
        text = Grant.parse(grant).text
        return await self._change(lambda seen: t.RevokeRights(to, seen, text))

    async def add_role(self, name: str, grants: Sequence[str]) -> Offset:
        """A new role. Raises `InvalidName`, `InvalidRequest`."""
        check_trust_name(name, what="role")
        texts = _grant_texts(grants)
        return await self._change(lambda seen: t.AddRole(name, seen, texts))

    async def remove_role(self, name: str) -> Offset:
        """A role goes."""
        return await self._change(lambda seen: t.RemoveRole(name, seen))

    async def assign_role(self, user: str, role: str) -> Offset:
        """A user gets a role."""
        return await self._change(lambda seen: t.AssignRole(user, seen, role))

    async def unassign_role(self, user: str, role: str) -> Offset:
        """A user loses a role."""
        return await self._change(lambda seen: t.UnassignRole(user, seen, role))

    async def set_quota(self, subject: str, quota: Quota) -> Offset:
        """The quota of `user:NAME`, `table:NAME` or `table:PREFIX*`; `NO_QUOTA`: none. Raises `InvalidRequest`."""
        check_quota(subject, quota)
        return await self._change(lambda seen: t.SetQuota(subject, seen, **asdict(quota)))

    def caller(self) -> tuple[Caller, UsersListing, int]:
        """Who calls, what the gate knows of all users, and when the caller's token expires (since 1970; 0: never)."""
        caller = _caller()
        return caller, UsersListing(self._gate.version, self._gate.trust), self._gate.expires_ms(caller)

    def _expiry(self, ttl_ms: int) -> int:
        if ttl_ms > _TTL_MS_MAX:
            raise InvalidRequest(f"a token expires within {_TTL_MS_MAX} ms, or never (0); not after {ttl_ms} ms")
        return self._clock.wall_ms() + ttl_ms if ttl_ms else 0

    async def _change(self, command: Callable[[Offset], t.TrustCommand]) -> Offset:
        version, cluster = await self._catalog.submit(command(self._catalog.map.version))
        self._gate.follow(cluster)
        assert self._gate.version >= version, f"the gate decides by {self._gate.version}, and not by {version}"
        return version


def _caller() -> Caller:
    return CALLER.get() or NOBODY


def _named_or_caller(name: str) -> str:
    """Raises `InvalidRequest` where nobody is named and nobody has proved anything."""
    named = name or _caller().name
    if not named:
        raise InvalidRequest("whose? The cluster has no user yet, so nobody proved who calls: name the user")
    return named


def _grant_texts(grants: Sequence[str]) -> tuple[str, ...]:
    return tuple(Grant.parse(grant).text for grant in grants)
