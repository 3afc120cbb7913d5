"""Single calls that are let in while nobody is a user: who is judged when the first user comes, and who goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import pytest
from kit.deadlines import until, within

from log_tier.access.authenticator import Authenticator, basic_header
from log_tier.access.demands import AllDemands, KeyDemand
from log_tier.access.gate import Gate
from log_tier.access.guard import GrpcGuard
from log_tier.access.rules import MethodRules
from log_tier.access.tokens import mint_token
from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.errors import DuramenError, PermissionDenied, TableNotFound, Unauthenticated
from log_tier.model.identifiers import Offset, TableId
from log_tier.rpc.checked import CheckedHandler, Refusals
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import error_of_call
from log_tier.trust.grants import Right
from log_tier.trust.trust_commands import AddUser
from router.proto import kv_pb2

READ, READ_AND_WRITE, GONE = "Read", "ReadAndWrite", "ReadGone"
TOKEN: Final = mint_token("root")


def gone(_request: Any, _names: Any) -> KeyDemand:
    raise TableNotFound("it was dropped", table=TableId("x" * 22))


RULES: Final[MethodRules] = {
    f"/test.Test/{READ}": lambda request, _: KeyDemand(Right.READ, request.table, (request.key,)),
    f"/test.Test/{READ_AND_WRITE}": lambda request, _: AllDemands(
        tuple(KeyDemand(right, request.table, (request.key,)) for right in (Right.READ, Right.WRITE))
    ),
    f"/test.Test/{GONE}": gone,
}


class WaitingService:
    """Calls that wait until the test lets them go, behind a guard."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.waiting = 0
        self.may_go_on = asyncio.Event()
        self.guard = GrpcGuard(gate, Authenticator(gate), RULES, OpenStreams(), identify=self._identify)
        self.channel: grpc.aio.Channel

    def _identify(self, context: Any) -> tuple[str, bool] | None:
        shown = dict(context.invocation_metadata()).get("certificate-of")
        return None if shown is None else (shown, shown == "n2")

    async def answer(self, request: Any, _context: Any) -> Any:
        self.waiting += 1
        try:
            await self.may_go_on.wait()
        finally:
            self.waiting -= 1
        return kv_pb2.KVGetResponse(value=request.key)

    async def call(self, method: str, *metadata: tuple[str, str]) -> DuramenError | None:
        call = self.channel.unary_unary(
            f"/test.Test/{method}",
            request_serializer=kv_pb2.KVGetRequest.SerializeToString,
            response_deserializer=kv_pb2.KVGetResponse.FromString,
        )
        try:
            reply = await call(kv_pb2.KVGetRequest(table="orders", key=b"k"), metadata=metadata)
        except grpc.aio.AioRpcError as failure:
            return error_of_call(failure, "the server")
        assert reply.value == b"k"
        return None

    def first_user(self, *grants: str) -> None:
        command = AddUser("root", Offset(-1), "", ("admin *", *grants), TOKEN.id, TOKEN.sha256)
        newest, (_, rejection) = fold_command(ClusterMap(), Offset(0), 10, "c0", command)
        assert rejection == ""
        self.gate.follow(newest)


@asynccontextmanager
async def waiting_service() -> AsyncIterator[WaitingService]:
    made = WaitingService(Gate())
    handlers = {
        method: grpc.unary_unary_rpc_method_handler(
            made.answer, kv_pb2.KVGetRequest.FromString, kv_pb2.KVGetResponse.SerializeToString
        )
        for method in (READ, READ_AND_WRITE, GONE)
    }
    server = grpc.aio.server()
    inner = grpc.method_handlers_generic_handler("test.Test", handlers)
    server.add_generic_rpc_handlers((CheckedHandler([inner], Refusals(), made.guard),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as made.channel:
        yield made
    made.guard.close()
    await server.stop(None)


BEARER: Final = ("authorization", f"Bearer {TOKEN.text}")
CALLS: Final[dict[str, tuple[str, tuple[tuple[str, str], ...], str, type[DuramenError] | None]]] = {
    # what, its metadata, a grant of root's, what it ends with
    "a read of nobody": (READ, (), "read *", Unauthenticated),
    "a read of no user's certificate": (READ, (("certificate-of", "eve"),), "read *", Unauthenticated),
    "a read of a password, which a thread would have to look at": (
        READ,
        (("authorization", basic_header("root", "correct horse battery")),),
        "read *",
        Unauthenticated,
    ),
    "a read of no token": (READ, (("authorization", "Bearer nonsense"),), "read *", Unauthenticated),
    "a read of a user who may not": (READ, (BEARER,), "read ships", PermissionDenied),
    "a read of a user who may": (READ, (BEARER,), "read orders", None),
    "a read of the certificate of a user who may": (READ, (("certificate-of", "root"),), "read orders", None),
    "a read of a server": (READ, (("certificate-of", "n2"),), "read ships", None),
    "what may write": (READ_AND_WRITE, (), "read ships", None),
    "what names no table": (GONE, (), "read *", None),
}


@pytest.mark.parametrize("what", CALLS)
async def test_a_call_that_waits_when_the_first_user_comes(what: str) -> None:
    method, metadata, grant, ends_with = CALLS[what]
    async with waiting_service() as service, within(30):
        call = asyncio.ensure_future(service.call(method, *metadata))
        await until(lambda: service.waiting == 1)
        service.first_user(grant)
        if ends_with is not None:
            assert isinstance(await call, ends_with)
            assert service.waiting == 0, "nothing waits for a call that has ended"
            return
        assert not call.done()
        service.may_go_on.set()
        assert await call is None


async def test_what_is_answered_and_what_is_given_up_is_forgotten() -> None:
    async with waiting_service() as service, within(30):
        given_up = asyncio.ensure_future(service.call(READ))
        await until(lambda: service.waiting == 1)
        given_up.cancel()
        await until(lambda: service.waiting == 0)
        service.may_go_on.set()
        assert await service.call(READ) is None
        await until(lambda: not service.guard._unasked)
        service.first_user()
        assert isinstance(await service.call(READ), Unauthenticated)
        assert not service.guard._reads
