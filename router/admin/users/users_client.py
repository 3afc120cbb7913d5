"""`duramen.v1.Users` from the other side."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from log_tier.rpc.wire import Wire
from router.proto import users_pb2 as pb
from router.proto import users_pb2_grpc

__all__ = ["UsersConnection"]


class UsersConnection:
    """Manages users through any server of a cluster. Answers are the messages of `users.proto`.

    Every call raises what the server says, and `Disconnected`, `DeadlineExceeded`. None is made twice: a change whose
    reply is lost may have happened.
    """

    def __init__(self, target: str, *, timeout: float) -> None:
        """`target`: host:port; `timeout`: seconds for each call."""
        self._timeout = timeout
        self._wire = Wire(target)
        self._stub: Any = users_pb2_grpc.UsersStub(self._wire.channel)  # type: ignore[no-untyped-call]

    async def __aenter__(self) -> UsersConnection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def add_user(
        self,
        user: str,
        *,
        password: str = "",
        grants: Sequence[str] = (),
        with_token: bool = False,
        ttl_ms: int = 0,
    ) -> pb.AddUserResponse:
        """A new user, and with `with_token` its first token."""
        request = pb.AddUserRequest(
            user=user, password=password, grants=grants, with_token=with_token, token_ttl_ms=ttl_ms
        )
        reply: pb.AddUserResponse = await self._ask(self._stub.AddUser, request)
        return reply

    async def remove_user(self, user: str) -> int:
        """A user goes. The version from which that holds, as of all changes."""
        return await self._change(self._stub.RemoveUser, pb.RemoveUserRequest(user=user))

    async def users(self) -> pb.ListUsersResponse:
        """All users and roles."""
        reply: pb.ListUsersResponse = await self._ask(self._stub.ListUsers, pb.ListUsersRequest())
        return reply

    async def set_password(self, user: str, password: str) -> int:
        """Another password; empty: none."""
        return await self._change(self._stub.SetPassword, pb.SetPasswordRequest(user=user, password=password))

    async def add_token(self, user: str, *, ttl_ms: int = 0) -> pb.AddTokenResponse:
        """A new token."""
        reply: pb.AddTokenResponse = await self._ask(self._stub.AddToken, pb.AddTokenRequest(user=user, ttl_ms=ttl_ms))
        return reply

    async def revoke_token(self, user: str, token_id: str) -> int:
        """A token is void."""
        return await self._change(self._stub.RevokeToken, pb.RevokeTokenRequest(user=user, token_id=token_id))

    async def grant(self, to: str, grant: str) -> int:
        """A user or a role gets a grant."""
        return await self._change(self._stub.Grant, pb.GrantRequest(to=to, grant=grant))

    async def revoke(self, to: str, grant: str) -> int:
        """A user or a role loses a grant."""
        return await self._change(self._stub.Revoke, pb.RevokeRequest(to=to, grant=grant))

    async def add_role(self, role: str, grants: Sequence[str] = ()) -> int:
        """A new role."""
        return await self._change(self._stub.AddRole, pb.AddRoleRequest(role=role, grants=grants))

    async def remove_role(self, role: str) -> int:
        """A role goes."""
        return await self._change(self._stub.RemoveRole, pb.RemoveRoleRequest(role=role))

    async def assign_role(self, user: str, role: str) -> int:
        """A user gets a role."""
        return await self._change(self._stub.AssignRole, pb.AssignRoleRequest(user=user, role=role))

    async def unassign_role(self, user: str, role: str) -> int:
        """A user loses a role."""
        return await self._change(self._stub.UnassignRole, pb.UnassignRoleRequest(user=user, role=role))

    async def set_quota(self, *, user: str | None = None, table: str | None = None, quota: pb.QuotaBounds) -> int:
        """The quota of a user or of tables; all bounds 0: none."""
        request = pb.SetQuotaRequest(quota=quota)
        if user is not None:
            request.user = user
        if table is not None:
            request.table = table
        return await self._change(self._stub.SetQuota, request)

    async def quotas(self) -> pb.ListQuotasResponse:
        """All quotas."""
        reply: pb.ListQuotasResponse = await self._ask(self._stub.ListQuotas, pb.ListQuotasRequest())
        return reply

    async def who_am_i(self) -> pb.WhoAmIResponse:
        """Who calls."""
        reply: pb.WhoAmIResponse = await self._ask(self._stub.WhoAmI, pb.WhoAmIRequest())
        return reply

    async def _change(self, method: Any, request: Any) -> int:
        return int((await self._ask(method, request)).version)

    async def _ask(self, method: Any, request: Any) -> Any:
        return await self._wire.ask(method, request, timeout=self._timeout)

    async def close(self) -> None:
        """Close the connection."""
        await self._wire.close()
