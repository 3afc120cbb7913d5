"""The fold of users, roles and grants: a state and a command make the next state. Pure and deterministic."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from log_tier.model.errors import DuramenError
from log_tier.trust import trust_commands as t
from log_tier.trust.grants import Grant
from log_tier.trust.names import check_trust_name
from log_tier.trust.quotas import NO_QUOTA, QUOTA_BOUNDS, Quota, check_quota
from log_tier.trust.users import ApiToken, TrustRole, TrustState, User

__all__ = ["GRANTS_MAX", "TOKENS_MAX", "USERS_MAX", "TrustRefused", "fold_trust"]

# Every server holds all users in memory; each has some 1 KiB without its grants.
USERS_MAX: Final = 10_000
# A token is found by going through those of its user.
TOKENS_MAX: Final = 100
# Of one user or role. Compiling them takes some 20 ms.
GRANTS_MAX: Final = 10_000

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_TOKEN_ID: Final = re.compile(r"[A-Za-z0-9]{1,32}")


class TrustRefused(Exception):
    """The fold refuses a command. The exception never leaves the catalog's fold, which records it as a decision."""


def fold_trust(state: TrustState, time_ms: int, command: t.TrustCommand) -> TrustState:
    """The next state. `time_ms`: the record's timestamp, which is log time. Raises `TrustRefused`.

    Once there is a user, there is always one with `admin *`: a command that would leave none is refused. O(users) for
    a command that takes something away, else O(the entry's grants).
    """
    try:
        after = _FOLDS[type(command)](state, time_ms, command)
    except DuramenError as error:
        raise TrustRefused(error.message) from error
    closed = state.is_closed or after.is_closed
    if closed and isinstance(command, _MAY_TAKE_THE_LAST) and not any(map(after.is_superuser, after.users)):
        raise TrustRefused(_NO_SUPERUSER if state.is_closed else _FIRST_NEEDS_ADMIN)
    return after


_NO_SUPERUSER: Final = (
    "this would leave no user with admin on *, and nobody could manage users: grant 'admin *' to another one first"
)
_FIRST_NEEDS_ADMIN: Final = (
    "the first user needs the grant 'admin *': from then on nobody passes without proof, and this one adds the others"
)


_MAY_TAKE_THE_LAST: Final = (t.AddUser, t.RemoveUser, t.RevokeRights, t.UnassignRole)


def _user(state: TrustState, name: str) -> User:
    found = state.users.get(name)
    if found is None:
        raise TrustRefused(f"there is no user {name!r}")
    return found


def _role(state: TrustState, name: str) -> TrustRole:
    found = state.roles.get(name)
    if found is None:
        raise TrustRefused(f"there is no role {name!r}")
    return found


def _check_free(state: TrustState, name: str) -> None:
    if name in state.users or name in state.roles:
        what = "user" if name in state.users else "role"
        raise TrustRefused(f"there is a {what} {name!r} already: users and roles share their names")


def _grants(texts: tuple[str, ...]) -> tuple[Grant, ...]:
    grants = tuple(dict.fromkeys(map(Grant.parse, texts)))
    if len(grants) > GRANTS_MAX:
        raise TrustRefused(f"{len(grants)} grants are more than the {GRANTS_MAX} that a user or a role can have")
    return grants


def _add_user(state: TrustState, time_ms: int, command: t.AddUser) -> TrustState:
    check_trust_name(command.user, what="user")
    _check_free(state, command.user)
    if len(state.users) >= USERS_MAX:
        raise TrustRefused(f"there are {USERS_MAX} users, which is all that a catalog holds")
    tokens: tuple[ApiToken, ...] = ()
    if command.token or command.sha256 or command.expires_ms:
        tokens = (_checked_token(state, time_ms, ApiToken(command.token, command.sha256, command.expires_ms)),)
    return state.with_user(User(command.user, command.password, tokens, _grants(command.grants)))


def _remove_user(state: TrustState, _time_ms: int, command: t.RemoveUser) -> TrustState:
    _user(state, command.user)
    quota = f"user:{command.user}"
    quotas = state.quotas.without(quota) if quota in state.quotas else state.quotas
    return replace(state, users=state.users.without(command.user), quotas=quotas)


def _set_password(state: TrustState, _time_ms: int, command: t.SetPassword) -> TrustState:
    return state.with_user(replace(_user(state, command.user), password=command.password))


def _add_token(state: TrustState, time_ms: int, command: t.AddToken) -> TrustState:
    user = _user(state, command.user)
    if len(user.tokens) >= TOKENS_MAX:
        raise TrustRefused(f"user {user.name} has {TOKENS_MAX} tokens, which is all that a user has: revoke one")
    token = _checked_token(state, time_ms, ApiToken(command.token, command.sha256, command.expires_ms))
    return state.with_user(replace(user, tokens=(*user.tokens, token)))


def _checked_token(state: TrustState, time_ms: int, token: ApiToken) -> ApiToken:
    """The token, if it can be one of the state's."""
    if not _TOKEN_ID.fullmatch(token.id) or not _SHA256.fullmatch(token.sha256):
        raise TrustRefused("a token has an id of 1 to 32 letters and digits, and a SHA-256 of 64 hex digits")
    if any(each.token(token.id) for each in state.users.values()):
        raise TrustRefused(f"there is a token {token.id} already")
    if token.expires_ms < 0 or token.is_void_at(time_ms):
        raise TrustRefused(f"the token would expire at {token.expires_ms} ms; the log's time is {time_ms} ms")
    return token


def _revoke_token(state: TrustState, _time_ms: int, command: t.RevokeToken) -> TrustState:
    user = _user(state, command.user)
    left = tuple(token for token in user.tokens if token.id != command.token)
    if len(left) == len(user.tokens):
        raise TrustRefused(f"user {user.name} has no token {command.token}")
    return state.with_user(replace(user, tokens=left))


def _add_role(state: TrustState, _time_ms: int, command: t.AddRole) -> TrustState:
    check_trust_name(command.role, what="role")
    _check_free(state, command.role)
    if len(state.roles) >= USERS_MAX:
        raise TrustRefused(f"there are {USERS_MAX} roles, which is all that a catalog holds")
    return state.with_role(TrustRole(command.role, _grants(command.grants)))


def _remove_role(state: TrustState, _time_ms: int, command: t.RemoveRole) -> TrustState:
    _role(state, command.role)
    having = sorted(user.name for user in state.users.values() if command.role in user.roles)
    if having:
        raise TrustRefused(f"role {command.role} is assigned to {', '.join(having[:10])}: unassign it first")
    return replace(state, roles=state.roles.without(command.role))


def _with_grants(state: TrustState, name: str, change: Callable[[tuple[Grant, ...]], tuple[Grant, ...]]) -> TrustState:
    if name in state.roles:
        role = state.roles[name]
        return state.with_role(replace(role, grants=change(role.grants)))
    if name not in state.users:
        raise TrustRefused(f"there is no user and no role {name!r}")
    user = state.users[name]
    return state.with_user(replace(user, grants=change(user.grants)))


def _grant(state: TrustState, _time_ms: int, command: t.GrantRights) -> TrustState:
    grant = Grant.parse(command.grant)

    def granted(grants: tuple[Grant, ...]) -> tuple[Grant, ...]:
        if grant in grants:
            raise TrustRefused(f"{command.to} has the grant '{grant}' already")
        if len(grants) >= GRANTS_MAX:
            raise TrustRefused(f"{command.to} has {GRANTS_MAX} grants, which is all that a user or a role has")
        return (*grants, grant)

    return _with_grants(state, command.to, granted)


def _revoke(state: TrustState, _time_ms: int, command: t.RevokeRights) -> TrustState:
    grant = Grant.parse(command.grant)

    def revoked(grants: tuple[Grant, ...]) -> tuple[Grant, ...]:
        if grant not in grants:
            raise TrustRefused(f"{command.to} has no grant '{grant}': revoke it as it was granted")
        return tuple(each for each in grants if each != grant)

    return _with_grants(state, command.to, revoked)


def _assign(state: TrustState, _time_ms: int, command: t.AssignRole) -> TrustState:
    user, role = _user(state, command.user), _role(state, command.role)
    if role.name in user.roles:
        raise TrustRefused(f"user {user.name} has the role {role.name} already")
    return state.with_user(replace(user, roles=(*user.roles, role.name)))


def _unassign(state: TrustState, _time_ms: int, command: t.UnassignRole) -> TrustState:
    user = _user(state, command.user)
    if command.role not in user.roles:
        raise TrustRefused(f"user {user.name} has no role {command.role}")
    return state.with_user(replace(user, roles=tuple(role for role in user.roles if role != command.role)))


def _set_quota(state: TrustState, _time_ms: int, command: t.SetQuota) -> TrustState:
    subject = command.subject
    quota = Quota(**{name: getattr(command, name) for name in QUOTA_BOUNDS})
    check_quota(subject, quota)
    if subject.startswith("user:"):
        _user(state, subject.removeprefix("user:"))
    if quota == (state.quotas.get(subject) or NO_QUOTA):
        return state
    if quota == NO_QUOTA:
        return replace(state, quotas=state.quotas.without(subject))
    if subject not in state.quotas and len(state.quotas) >= USERS_MAX:
        raise TrustRefused(f"there are {USERS_MAX} quotas, which is all that a catalog holds")
    return replace(state, quotas=state.quotas.with_entry(subject, quota))


_FOLDS: Final[Mapping[type, Callable[[TrustState, int, Any], TrustState]]] = {
    t.AddUser: _add_user,
    t.RemoveUser: _remove_user,
    t.SetPassword: _set_password,
    t.AddToken: _add_token,
    t.RevokeToken: _revoke_token,
    t.AddRole: _add_role,
    t.RemoveRole: _remove_role,
    t.GrantRights: _grant,
    t.RevokeRights: _revoke,
    t.AssignRole: _assign,
    t.UnassignRole: _unassign,
    t.SetQuota: _set_quota,
}
assert set(_FOLDS) == set(t.TRUST_COMMANDS.values()), "a command of users has no fold"
