"""`duramen.v1.Users`: each method calls `UserAdmin`, and translates."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import asdict
from typing import Any, Final, TypeVar

import grpc

from log_tier.concurrency.sized_work import run_sized
from log_tier.model.errors import DuramenError, InvalidRequest
from log_tier.rpc.problems import abort
from log_tier.trust.quotas import QUOTA_BOUNDS, Quota
from log_tier.trust.users import TrustRole, User
from router.admin.users.user_admin import UserAdmin, UsersListing
from router.proto import users_pb2 as pb
from router.proto import users_pb2_grpc

__all__ = ["UsersService"]

T = TypeVar("T")

_Context = grpc.aio.ServicerContext[Any, Any]

# To copy a user or a role into its message costs as much as so many keys of a read; a grant as much as one.
_ENTRY_ITEMS: Final = 4


class UsersService(users_pb2_grpc.UsersServicer):
    """Serves `users`."""

    def __init__(self, users: UserAdmin) -> None:
        self._users = users

    async def AddUser(self, request: pb.AddUserRequest, context: _Context) -> pb.AddUserResponse:  # noqa: N802
        made = await _answer(
            context,
            self._users.add_user(
                request.user,
                password=request.password,
                grants=request.grants,
                with_token=request.with_token,
                ttl_ms=request.token_ttl_ms,
            ),
        )
        if made.token is None:
            return pb.AddUserResponse(version=made.version)
        token = made.token
        return pb.AddUserResponse(version=made.version, token=token.text, token_id=token.id, expires_ms=made.expires_ms)

    async def RemoveUser(self, request: pb.RemoveUserRequest, context: _Context) -> pb.RemoveUserResponse:  # noqa: N802
        return pb.RemoveUserResponse(version=await _answer(context, self._users.remove_user(request.user)))

    async def ListUsers(self, request: pb.ListUsersRequest, context: _Context) -> pb.ListUsersResponse:  # noqa: N802
        found = await _answer(context, self._users.users())
        entries = len(found.trust.users) + len(found.trust.roles)
        return await run_sized(_ENTRY_ITEMS * entries, lambda: _listing(found))

    async def SetPassword(  # noqa: N802
        self, request: pb.SetPasswordRequest, context: _Context
    ) -> pb.SetPasswordResponse:
        changed = self._users.set_password(request.user, request.password)
        return pb.SetPasswordResponse(version=await _answer(context, changed))

    async def AddToken(self, request: pb.AddTokenRequest, context: _Context) -> pb.AddTokenResponse:  # noqa: N802
        made = await _answer(context, self._users.add_token(request.user, ttl_ms=request.ttl_ms))
        token = made.token
        return pb.AddTokenResponse(
            version=made.version, token=token.text, token_id=token.id, expires_ms=made.expires_ms
        )

    async def RevokeToken(  # noqa: N802
        self, request: pb.RevokeTokenRequest, context: _Context
    ) -> pb.RevokeTokenResponse:
        changed = self._users.revoke_token(request.user, request.token_id)
        return pb.RevokeTokenResponse(version=await _answer(context, changed))

    async def Grant(self, request: pb.GrantRequest, context: _Context) -> pb.GrantResponse:  # noqa: N802
        return pb.GrantResponse(version=await _answer(context, self._users.grant(request.to, request.grant)))

    async def Revoke(self, request: pb.RevokeRequest, context: _Context) -> pb.RevokeResponse:  # noqa: N802
        return pb.RevokeResponse(version=await _answer(context, self._users.revoke(request.to, request.grant)))

    async def AddRole(self, request: pb.AddRoleRequest, context: _Context) -> pb.AddRoleResponse:  # noqa: N802
        return pb.AddRoleResponse(version=await _answer(context, self._users.add_role(request.role, request.grants)))

    async def RemoveRole(self, request: pb.RemoveRoleRequest, context: _Context) -> pb.RemoveRoleResponse:  # noqa: N802
        return pb.RemoveRoleResponse(version=await _answer(context, self._users.remove_role(request.role)))

    async def AssignRole(self, request: pb.AssignRoleRequest, context: _Context) -> pb.AssignRoleResponse:  # noqa: N802
        changed = self._users.assign_role(request.user, request.role)
        return pb.AssignRoleResponse(version=await _answer(context, changed))

    async def UnassignRole(  # noqa: N802
        self, request: pb.UnassignRoleRequest, context: _Context
    ) -> pb.UnassignRoleResponse:
        changed = self._users.unassign_role(request.user, request.role)
        return pb.UnassignRoleResponse(version=await _answer(context, changed))

    async def SetQuota(self, request: pb.SetQuotaRequest, context: _Context) -> pb.SetQuotaResponse:  # noqa: N802
        return pb.SetQuotaResponse(version=await _answer(context, self._set_quota(request)))

    async def _set_quota(self, request: pb.SetQuotaRequest) -> int:
        kind = request.WhichOneof("subject")
        if kind is None:
            raise InvalidRequest("whose quota? Name a user or a table")
        bounds = {each: getattr(request.quota, each) for each in QUOTA_BOUNDS}
        return await self._users.set_quota(f"{kind}:{getattr(request, kind)}", Quota(**bounds))

    async def ListQuotas(self, request: pb.ListQuotasRequest, context: _Context) -> pb.ListQuotasResponse:  # noqa: N802
        found = await _answer(context, self._users.users())
        return await run_sized(_ENTRY_ITEMS * len(found.trust.quotas), lambda: _quotas(found))

    async def WhoAmI(self, request: pb.WhoAmIRequest, context: _Context) -> pb.WhoAmIResponse:  # noqa: N802
        caller, known, expires_ms = self._users.caller()
        user = known.trust.users.get(caller.name)
        return pb.WhoAmIResponse(
            user=caller.name,
            proof=caller.proof,
            grants=[grant.text for grant in known.trust.grants_of(caller.name)],
            roles=() if user is None else user.roles,
            version=known.version,
            expires_ms=expires_ms,
        )


async def _answer(context: _Context, asked: Awaitable[T]) -> T:
    try:
        return await asked
    except DuramenError as error:
        await abort(context, error)


def _listing(found: UsersListing) -> pb.ListUsersResponse:
    users, roles = found.trust.users, found.trust.roles
    return pb.ListUsersResponse(
        version=found.version,
        users=[_user(users[name]) for name in sorted(users)],
        roles=[_role(roles[name]) for name in sorted(roles)],
    )


def _quotas(found: UsersListing) -> pb.ListQuotasResponse:
    quotas = found.trust.quotas
    return pb.ListQuotasResponse(
        version=found.version, quotas=[_quota(subject, quotas[subject]) for subject in sorted(quotas)]
    )


def _quota(subject: str, quota: Quota) -> pb.QuotaEntry:
    kind, _, name = subject.partition(":")
    bounds = pb.QuotaBounds(**asdict(quota))
    return pb.QuotaEntry(user=name, quota=bounds) if kind == "user" else pb.QuotaEntry(table=name, quota=bounds)


def _user(user: User) -> pb.UserEntry:
    return pb.UserEntry(
        user=user.name,
        has_password=user.password != "",
        tokens=[pb.TokenEntry(id=token.id, expires_ms=token.expires_ms) for token in user.tokens],
        grants=[grant.text for grant in user.grants],
        roles=user.roles,
    )


def _role(role: TrustRole) -> pb.RoleEntry:
    return pb.RoleEntry(role=role.name, grants=[grant.text for grant in role.grants])
