"""The one table between our errors and gRPC's status codes. Nothing else in Duramen knows a gRPC code."""

from __future__ import annotations

from typing import Final

import grpc

from log_tier.model.errors import ERRORS, DuramenError

__all__ = ["status_of"]

_STATUS: Final[dict[str, grpc.StatusCode]] = {
    "error": grpc.StatusCode.INTERNAL,
    "invalid_request": grpc.StatusCode.INVALID_ARGUMENT,
    "access_denied": grpc.StatusCode.PERMISSION_DENIED,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "permission_denied": grpc.StatusCode.PERMISSION_DENIED,
    "location_refused": grpc.StatusCode.PERMISSION_DENIED,
    "token_ahead": grpc.StatusCode.OUT_OF_RANGE,
    "limit_exceeded": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "table_not_found": grpc.StatusCode.NOT_FOUND,
    "table_exists": grpc.StatusCode.ALREADY_EXISTS,
    "offset_trimmed": grpc.StatusCode.OUT_OF_RANGE,
    "offset_passed": grpc.StatusCode.OUT_OF_RANGE,
    "rejected": grpc.StatusCode.FAILED_PRECONDITION,
    "unavailable": grpc.StatusCode.UNAVAILABLE,
    "overloaded": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "disk_full": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "deadline_exceeded": grpc.StatusCode.DEADLINE_EXCEEDED,
    "write_unknown": grpc.StatusCode.DEADLINE_EXCEEDED,
    "damaged": grpc.StatusCode.DATA_LOSS,
    "certificate_invalid": grpc.StatusCode.FAILED_PRECONDITION,
    "disk_failed": grpc.StatusCode.FAILED_PRECONDITION,
    "log_stopped": grpc.StatusCode.FAILED_PRECONDITION,
    "unknown_format": grpc.StatusCode.UNIMPLEMENTED,
}


def status_of(kind: type[DuramenError]) -> grpc.StatusCode:
    """The status of an error class: its own, or that of the nearest class above it which has one."""
    for ancestor in kind.__mro__:
        if issubclass(ancestor, DuramenError) and ancestor.code in _STATUS:
            return _STATUS[ancestor.code]
    raise AssertionError(f"{kind} is outside the tree")


assert set(_STATUS) <= set(ERRORS), f"unknown codes: {set(_STATUS) - set(ERRORS)}"
