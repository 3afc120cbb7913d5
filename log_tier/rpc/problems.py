"""Errors as messages: inside a reply, or in the trailing metadata of a call that failed as a whole."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.message import DecodeError

from log_tier.model.errors import (
    ERRORS,
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    InvalidRequest,
    LimitExceeded,
    Unavailable,
    UnknownFormat,
    error_from_code,
)
from log_tier.proto.problem_pb2 import Problem
from log_tier.rpc.security import handshake_failure
from log_tier.rpc.status_codes import STATUS_KEY, status_details, status_of
from log_tier.tracing.span import TRACED

__all__ = [
    "PROBLEM_KEY",
    "abort",
    "error_of",
    "error_of_call",
    "may_have_happened",
    "no_answer",
    "problem_of",
    "without_advice",
]

logger = logging.getLogger(__name__)

PROBLEM_KEY: Final = "duramen-problem-bin"

# gRPC carries at most 8 KiB of metadata, in base64; a message that quotes its request must not grow past that.
_MESSAGE_LENGTH_MAX: Final = 1000
_TEXT_LENGTH_MAX: Final = 200

# gRPC's own words for a connection that could not be made at all: nothing was sent.
_NOT_SENT: Final = "failed to connect"
# The other end closed the connection before it said anything. With TLS 1.3 a client that was refused hears no more.
_CLOSED: Final = "Socket closed"
_ADVICE: Final = "; is it running?"
_SHOW: Final = ", and one that asks for a certificate closes on who shows no valid one"

# Statuses with which gRPC itself refuses a call before our code runs, and our error for each.
# By name: a forked process has a second class of the same codes (`core`).
_FOREIGN: Final[dict[str, type[DuramenError]]] = {
    "UNAVAILABLE": Disconnected,
    "CANCELLED": Disconnected,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "RESOURCE_EXHAUSTED": LimitExceeded,
    "INVALID_ARGUMENT": InvalidRequest,
    "UNIMPLEMENTED": UnknownFormat,
}


def problem_of(error: DuramenError) -> Problem:
    """The message for an error."""
    fields = error.fields
    return Problem(
        code=error.code,
        message=_cut(error.message, _MESSAGE_LENGTH_MAX),
        numbers={name: value for name, value in fields.items() if isinstance(value, int)},
        texts={name: _cut(value, _TEXT_LENGTH_MAX) for name, value in fields.items() if isinstance(value, str)},
        retryable=error.retryable,
    )


def _cut(text: str, length_max: int) -> str:
    # What cannot be encoded (lone surrogates in a name) is escaped.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


def error_of(problem: Problem) -> DuramenError:
    """The error that a message encodes. An error of a newer server keeps whether a retry helps."""
    code = problem.code
    if code not in ERRORS and problem.retryable:
        code = Unavailable.code
    return error_from_code(code, problem.message, {**problem.numbers, **problem.texts})


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: DuramenError) -> NoReturn:
    """End the call with this error: as a `Problem` for our own clients, as `google.rpc.Status` for all others.

    Where the client is gone already, the call ends as cancelled, without a word on the server's screen.
    """
    for caller in TRACED.get():
        caller.fail(error.code)
    problem = problem_of(error)
    details = _cut(error.message, _TEXT_LENGTH_MAX)  # for clients without our protos; ours read the problem
    trailing = ((PROBLEM_KEY, problem.SerializeToString()), (STATUS_KEY, status_details(error, details)))
    try:
        await context.abort(status_of(type(error)), details, trailing)
    except grpc.aio.InternalError as failure:
        # gRPC's core could not send the status: the client has just gone away.
        logger.debug("a call ended with its client, before %s was sent: %s", type(error).__name__, failure)
        raise asyncio.CancelledError from failure
    raise AssertionError("abort returned")


def error_of_call(failure: grpc.aio.AioRpcError, target: str) -> DuramenError:
    """The error behind a call that failed: the server's own, or what gRPC met on the way.

    A status of gRPC's own that does not say whether the server did anything (`UNKNOWN` and `INTERNAL`: its handler
    broke) gives an error with the field `answered=0`. A write that ends so may have happened.
    """
    metadata: Any = failure.trailing_metadata() or ()
    for key, value in metadata:
        if key == PROBLEM_KEY and isinstance(value, bytes):
            try:
                return error_of(Problem.FromString(value))
            except DecodeError:
                break
    kind = _FOREIGN.get(failure.code().name)
    details = failure.details() or failure.code().name
    if kind is Disconnected:
        if (refused := handshake_failure(target, details)) is not None:
            return refused
        not_sent = {"sent": 0} if _NOT_SENT in details else {}
        return no_answer(target, details, **not_sent)
    if kind is None:
        return DuramenError(f"the call to {target} failed: {details}", answered=0)
    return kind(f"the call to {target} failed: {details}")


def no_answer(target: str, details: str, **fields: int) -> Disconnected:
    """The error where no server of ours answers; `details` in the system's words. `sent=0`: nothing reached one."""
    closed = _SHOW if fields.get("sent") == 0 and _CLOSED in details else ""
    return Disconnected(
        f"no Duramen server answers at {target} ({details}){_ADVICE} `duramen up` starts one; one with "
        f"certificates is called with duramens://{closed}",
        **fields,
    )


def without_advice(message: str) -> str:
    """The message of a `no_answer` without what it asks a person to do; any other one as it is."""
    return message.partition(_ADVICE)[0]


def may_have_happened(error: DuramenError) -> bool:
    """Whether a call that ended with this error of `Wire.ask` may have reached the server and changed something."""
    if isinstance(error, (Disconnected, DeadlineExceeded)):
        return error.fields.get("sent") != 0
    return error.fields.get("answered") == 0
