"""From messages to records: what a `KVPutRequest` with `ttl_ms` and `if_absent` is in a batch. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from log_tier.model.batch import Columns
from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue, LimitExceeded, PartitionMismatch
from log_tier.model.identifiers import Partition
from log_tier.model.record import (
    KEY_BYTES_MAX,
    PLAIN_PUT,
    TTL_MS_MAX,
    VALUE_BYTES_MAX,
    Condition,
    Expiry,
    Operation,
    attribute_of,
)
from log_tier.model.table_ref import TableRef
from router.proto import kv_pb2 as kv

__all__ = [
    "GROUP_WRITES_MAX",
    "check_key",
    "delete_record",
    "group_of",
    "partition_of_group",
    "put_record",
    "update_record",
]

# A group is folded in one piece, and its effects are held until its last record is judged.
GROUP_WRITES_MAX: Final = 10_000

_UPDATES: Final = {
    "add": Operation.ADD,
    "multiply": Operation.MULTIPLY,
    "min": Operation.MIN,
    "max": Operation.MAX,
    "append": Operation.APPEND,
}


def check_key(key: bytes) -> bytes:
    """Return `key`, or raise `InvalidKey` with its size and the limit."""
    if not 0 < len(key) <= KEY_BYTES_MAX:
        shown = f"{key[:24]!r}… has {len(key)} bytes" if key else "is empty"
        raise InvalidKey(
            f"the key {shown}; keys have 1 to {KEY_BYTES_MAX} bytes: hash what is longer",
            size=len(key),
            limit=KEY_BYTES_MAX,
        )
    return key


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


def delete_record(request: kv.KVDeleteRequest) -> tuple[Columns, bool]:
    """The record of a delete, and whether its verdict must be waited for."""
    condition = _condition(request)
    return _record(Operation.DELETE, request.key, b"", condition=condition, version=request.if_version)


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
    if not writes:
        raise InvalidRequest("a group has at least one write, this one has none")
    if len(writes) > GROUP_WRITES_MAX:
        raise LimitExceeded(
            f"a group has at most {GROUP_WRITES_MAX} writes, this one {len(writes)}: split it",
            limit=GROUP_WRITES_MAX,
            size=len(writes),
        )
    records = [_grouped(write, first=not number) for number, write in enumerate(writes)]

    def column(name: str, default: int) -> list[int]:
        return [cells[0] if (cells := getattr(record, name)) else default for record in records]

    return Columns(
        [record.keys[0] for record in records],
        [record.values[0] for record in records],
        column("attributes", PLAIN_PUT),
        column("versions", 0),
        column("expiries", 0),
    )


def partition_of_group(table: TableRef, keys: Sequence[bytes]) -> Partition:
    """The partition that all keys of a group lie in. Raises `PartitionMismatch`, with two keys that do not."""
    first = table.partition_of(keys[0])
    for key in keys:
        other = table.partition_of(key)
        if other != first:
            together = (
                "give its keys a common {tag}"
                if table.partitioner == "slot"
                else f"the table's partitioner, {table.partitioner}, knows no tags"
            )
            raise PartitionMismatch(
                f"{keys[0][:40]!r} lies in partition {first} of {table.name}, {key[:40]!r} in {other}: a group touches "
                f"one partition; {together}"
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
    given = []
    if not isinstance(request, kv.KVDeleteRequest) and request.if_absent:
        given.append(Condition.ABSENT)
    if request.if_present:
        given.append(Condition.PRESENT)
    if request.HasField("if_version"):
        if request.if_version < -1:
            raise InvalidRequest(
                f"if_version is the version of a reply, or -1 for an absent key, not {request.if_version}"
            )
        given.append(Condition.VERSION)
    if len(given) > 1:
        raise InvalidRequest(f"give one of if_absent, if_present and if_version; here are {len(given)}")
    return given[0] if given else Condition.NONE


def _update(request: kv.KVUpdateRequest | kv.KVWrite, named: str | None) -> tuple[Operation, bytes]:
    """The operation and the operand's bytes."""
    if named is None:
        raise InvalidRequest("the operation is missing: give one, with its operand")
    operation = _UPDATES[named]
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
    check_key(key)
    if len(value) > VALUE_BYTES_MAX:
        raise InvalidValue(
            f"the value has {len(value)} bytes; values have at most {VALUE_BYTES_MAX}: cut it in pieces, or store its "
            "address",
            size=len(value),
            limit=VALUE_BYTES_MAX,
        )
    if not 0 <= ttl_ms <= TTL_MS_MAX:
        raise InvalidRequest(f"ttl_ms is 0 (none) to {TTL_MS_MAX} milliseconds, not {ttl_ms}")
    if ttl_ms and keep_ttl:
        raise InvalidRequest("give one of ttl_ms and keep_ttl")
    expiry = Expiry.TTL if ttl_ms else Expiry.KEEP if keep_ttl else Expiry.NONE
    attribute = attribute_of(operation, condition=condition, expiry=expiry, grouped=grouped)
    columns = Columns(
        (key,),
        (value,),
        None if attribute == PLAIN_PUT else (attribute,),
        (version,) if condition is Condition.VERSION else None,
        (ttl_ms,) if ttl_ms else None,
    )
    return columns, condition is not Condition.NONE
