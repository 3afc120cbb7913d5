"""Errors across a wire: every class both ways, with its fields, inside a reply and as the end of a call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from log_tier.model.errors import (
    ERRORS,
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    InvalidRequest,
    LimitExceeded,
    ShuttingDown,
    Unavailable,
    UnknownFormat,
)
from log_tier.proto.problem_pb2 import Problem
from log_tier.rpc.problems import (
    PROBLEM_KEY,
    abort,
    error_of,
    error_of_call,
    may_have_happened,
    no_answer,
    problem_of,
    without_advice,
)
from log_tier.rpc.status_codes import status_of

FIELDS: dict[str, int | str] = {"offset": -1, "asked": (1 << 63) - 1, "file": "a/ü", "limit": 0}


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_every_class_survives_inside_a_reply(code: str) -> None:
    error = ERRORS[code]("both values: 1 and 2", **FIELDS)
    back = error_of(Problem.FromString(problem_of(error).SerializeToString()))
    assert type(back) is ERRORS[code]
    assert (back.message, back.fields, back.retryable) == (error.message, FIELDS, error.retryable)


class _Thrower(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in its stubs alone
    """A server whose every call ends with the error that its name says."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        code = details.method.rpartition("/")[2]

        async def end(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            if code == "bug":
                raise RuntimeError("a bug in the server")
            await abort(context, ERRORS[code](request.decode(), **FIELDS))

        return grpc.unary_unary_rpc_method_handler(end)


@pytest.fixture
async def channel(tmp_path: Path) -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Thrower(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened
    await server.stop(None)


async def end_of(channel: grpc.aio.Channel, code: str, message: bytes) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(f"/x/{code}", bytes, bytes)(message)
    return caught.value


@pytest.mark.parametrize("code", sorted(ERRORS))
async def test_every_class_survives_as_the_end_of_a_call(channel: grpc.aio.Channel, code: str) -> None:
    failure = await end_of(channel, code, "asks 1057, has 1041 ü".encode())
    assert failure.code() is status_of(ERRORS[code])
    assert failure.code() not in (grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN)
    error = error_of_call(failure, "here:1")
    assert type(error) is ERRORS[code]
    assert (error.message, error.fields) == ("asks 1057, has 1041 ü", FIELDS)


async def test_a_long_message_is_cut_and_stays_typed(channel: grpc.aio.Channel) -> None:
    """gRPC refuses metadata over 8 KiB, and would replace our error by its own."""
    error = error_of_call(await end_of(channel, "table_not_found", "ü€𝄞x".encode() * 50_000), "here:1")
    assert type(error) is ERRORS["table_not_found"]
    assert error.message.startswith("ü€𝄞x")
    assert len(error.message) <= 1000


def test_a_text_that_cannot_be_encoded_is_shown() -> None:
    problem = problem_of(InvalidRequest("no table '\ud800'", table="\udfff" * 3))
    assert error_of(problem).message == "no table '\\ud800'"


async def test_a_bug_in_the_server_is_no_error_of_the_caller(channel: grpc.aio.Channel) -> None:
    error = error_of_call(await end_of(channel, "bug", b""), "here:1")
    assert type(error) is DuramenError
    assert "here:1" in error.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, Disconnected),
        (grpc.StatusCode.CANCELLED, Disconnected),
        (grpc.StatusCode.DEADLINE_EXCEEDED, DeadlineExceeded),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, LimitExceeded),
        (grpc.StatusCode.INVALID_ARGUMENT, InvalidRequest),
        (grpc.StatusCode.UNIMPLEMENTED, UnknownFormat),
        (grpc.StatusCode.INTERNAL, DuramenError),
    ],
)
@pytest.mark.parametrize("trailing", [(), ((PROBLEM_KEY, b"\xff rubbish"),)])
def test_what_grpc_says_by_itself(
    status: grpc.StatusCode, kind: type[DuramenError], trailing: tuple[tuple[str, bytes], ...]
) -> None:
    failure = grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), "details of it", None)
    error = error_of_call(failure, "here:1")
    assert type(error) is kind
    assert "here:1" in error.message
    assert "details of it" in error.message
    assert error.fields == ({"answered": 0} if kind is DuramenError else {})
    assert may_have_happened(error) == (kind in (Disconnected, DeadlineExceeded, DuramenError))


def test_only_a_failed_connect_says_that_nothing_was_sent() -> None:
    failure = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE,
        grpc.aio.Metadata(),
        grpc.aio.Metadata(),
        "failed to connect to all addresses",
        None,
    )
    assert error_of_call(failure, "here:1").fields == {"sent": 0}


@pytest.mark.parametrize(("retryable", "kind"), [(True, Unavailable), (False, DuramenError)])
def test_an_error_of_a_newer_server(retryable: bool, kind: type[DuramenError]) -> None:
    error = error_of(Problem(code="not_invented_yet", message="m", numbers={"n": 1}, retryable=retryable))
    assert type(error) is kind
    assert (error.message, error.fields, error.retryable) == ("m", {"n": 1}, retryable)


def test_each_status_is_one_that_fits() -> None:
    """What a gRPC program that knows nothing of us does with a status: retry UNAVAILABLE, and little else."""
    unavailable = {code for code, kind in ERRORS.items() if status_of(kind) is grpc.StatusCode.UNAVAILABLE}
    assert unavailable == {
        "unavailable",
        "disconnected",
        "handshake_failed",
        "shutting_down",
        "not_hosted",
        "version_missing",
        "snapshot_store_unavailable",
    }
    for code in unavailable:
        assert ERRORS[code].retryable
    for code, kind in ERRORS.items():
        if issubclass(kind, InvalidRequest):
            assert status_of(kind) in (
                grpc.StatusCode.INVALID_ARGUMENT,
                grpc.StatusCode.UNAUTHENTICATED,
                grpc.StatusCode.PERMISSION_DENIED,
                grpc.StatusCode.OUT_OF_RANGE,
                grpc.StatusCode.RESOURCE_EXHAUSTED,
            ), code


async def test_a_client_that_is_gone_when_its_error_is_sent() -> None:
    """gRPC prints a traceback for what its core raises, and nothing for a call that was cancelled."""

    class Gone:
        async def abort(self, *_: object) -> None:
            raise grpc.aio.InternalError('Failed "execute_batch"')

    context: Any = Gone()
    with pytest.raises(asyncio.CancelledError):
        await abort(context, ShuttingDown("the server is stopping"))


def test_a_reason_has_what_happened_alone() -> None:
    """As the loss of a node is shown in a line with other things to do."""
    assert without_advice(no_answer("n1:7", "refused; last error: x").message) == (
        "no Duramen server answers at n1:7 (refused; last error: x)"
    )
    assert without_advice("it has said nothing for 0.75 s") == "it has said nothing for 0.75 s"
