"""From messages to records: what a `KVPutRequest` with `ttl_ms` and `if_absent` is in a batch. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from log_tier.model.batch import Columns
from log_tier.model.errors import InvalidRequest, InvalidValue, LimitExceeded, PartitionMismatch
from log_tier.model.identifiers import Partition
from log_tier.model.partitioner import placed_together
from log_tier.model.record import GROUP_RECORDS_MAX, TTL_MS_MAX, UPDATES_BY_NAME, Condition, Operation, condition_of
from log_tier.model.table_ref import TableRef
from router.data.gather.columns_builder import joined, one_record
from router.proto import kv_pb2 as kv

__all__ = [
    "check_group",
    "delete_record",
    "group_of",
    "partition_of_group",
    "put_record",
    "update_record",
]


def put_record(request: kv.KVPutRequest) -> tuple[Columns, bool]:
    """The record of a put, and whether its verdict must be waited for."""
    return _record(
        Operation.PUT,
        request.key,
        request.value,
        condition=_condition(request),
        version=request.if_version,
        ttl_ms=request.ttl_ms,
        keep_ttl=request.keep_ttl,
    )


def delete_record(request: kv.KVDeleteRequest, key: bytes) -> tuple[Columns, bool]:
    """The record of a delete of `key`, as it is stored, and whether its verdict must be waited for."""
    condition = _condition(request)
    return _record(Operation.DELETE, key, b"", condition=condition, version=request.if_version)


def update_record(request: kv.KVUpdateRequest) -> Columns:
    """The record of an update, whose verdict must be waited for."""
    operation, operand = _update(request, request.WhichOneof("operation"))
    record, _ = _record(
        operation,
        request.key,
        operand,
        condition=_condition(request),
        version=request.if_version,
        ttl_ms=request.ttl_ms,
    )
    return record


def group_of(writes: Sequence[kv.KVWrite]) -> Columns:
    """The records of an atomic group, in its order. Raises `InvalidRequest` with what is wrong."""
    check_group(writes)
    return joined(_grouped(write, first=not number) for number, write in enumerate(writes))


def check_group(writes: Sequence[kv.KVWrite]) -> None:
    """Raises `InvalidRequest` for a group without writes, `LimitExceeded` for one with too many."""
    if not writes:
        raise InvalidRequest("a group has at least one write, this one has none")
    if len(writes) > GROUP_RECORDS_MAX:
        raise LimitExceeded(
            f"a group has at most {GROUP_RECORDS_MAX} writes, this one {len(writes)}: split it",
            limit=GROUP_RECORDS_MAX,
            size=len(writes),
        )


def partition_of_group(table: TableRef, keys: Sequence[bytes]) -> Partition:
    """The partition that all keys of a group lie in. Raises `PartitionMismatch`, with two keys that do not."""
    first = table.partition_of(keys[0])
    for key in keys:
        other = table.partition_of(key)
        if other != first:
            raise PartitionMismatch(
                f"{keys[0][:40]!r} lies in partition {first} of {table.name}, {key[:40]!r} in {other}: a group touches "
                f"one partition; {placed_together(table.partitioner)}"
            )
    return first


def _grouped(write: kv.KVWrite, *, first: bool) -> Columns:
    named = write.WhichOneof("operation")
    operation, value = Operation.PUT, write.put
    if named == "delete":
        if not write.delete:
            raise InvalidRequest("a write with delete=false does nothing: leave it out, or say what it does")
        operation, value = Operation.DELETE, b""
    elif named != "put":
        operation, value = _update(write, named)
    if write.keep_ttl and operation is not Operation.PUT:
        raise InvalidRequest("keep_ttl is for put: an update keeps the expiry by itself, and a delete ends it")
    if write.ttl_ms and operation is Operation.DELETE:
        raise InvalidRequest(f"a delete has no ttl_ms, this one has {write.ttl_ms}")
    record, _ = _record(
        operation,
        write.key,
        value,
        condition=_condition(write),
        version=write.if_version,
        ttl_ms=write.ttl_ms,
        keep_ttl=write.keep_ttl,
        grouped=not first,
    )
    return record


def _condition(request: kv.KVPutRequest | kv.KVDeleteRequest | kv.KVUpdateRequest | kv.KVWrite) -> Condition:
    return condition_of(
        absent=not isinstance(request, kv.KVDeleteRequest) and request.if_absent,
        present=request.if_present,
        version=request.if_version if request.HasField("if_version") else None,
    )


def _update(request: kv.KVUpdateRequest | kv.KVWrite, named: str | None) -> tuple[Operation, bytes]:
    """The operation and the operand's bytes."""
    if named is None:
        raise InvalidRequest("the operation is missing: give one, with its operand")
    if named == "patch":
        return Operation.PATCH, request.patch
    operation = UPDATES_BY_NAME[named]
    if operation is Operation.APPEND:
        return operation, request.append
    number: kv.KVNumber = getattr(request, named)
    kind = number.WhichOneof("number")
    if kind == "integer":
        return operation, b"%d" % number.integer
    if kind is None:
        raise InvalidRequest(f"{named} takes a number: set integer or real")
    if not math.isfinite(number.real):
        raise InvalidValue(f"{named} takes a finite number, not {number.real}")
    return operation, repr(number.real).encode("ascii")


def _record(
    operation: Operation,
    key: bytes,
    value: bytes,
    *,
    condition: Condition,
    version: int,
    ttl_ms: int = 0,
    keep_ttl: bool = False,
    grouped: bool = False,
) -> tuple[Columns, bool]:
    """One record as columns of length one, with those columns only that it needs; and whether it is conditional."""
    if not 0 <= ttl_ms <= TTL_MS_MAX:
        raise InvalidRequest(f"ttl_ms is 0 (none) to {TTL_MS_MAX} milliseconds, not {ttl_ms}")
    columns = one_record(
        operation,
        key,
        value,
        condition=condition,
        version=version,
        ttl_ms=ttl_ms,
        keep_ttl=keep_ttl,
        grouped=grouped,
    )
    return columns, condition is not Condition.NONE
