"""From a call's arguments to records: what `put(..., ttl=3600, if_absent=True)` means in a batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from duramen.client.model.results import Number
from log_tier.model.batch import Columns
from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue, UnknownFormat
from log_tier.model.record import (
    KEY_BYTES_MAX,
    TTL_MS_MAX,
    UPDATES_BY_NAME,
    VALUE_BYTES_MAX,
    Operation,
    condition_of,
    key_refusal,
    value_refusal,
)
from router.data.gather.columns_builder import one_record

__all__ = ["check_key", "check_value", "iterator_of", "number_of", "record_of", "update_of"]

_SHOWN_BYTES: Final = 40

T = TypeVar("T")


def check_key(key: bytes) -> bytes:
    """Return `key`, or raise `InvalidKey` saying what a key is."""
    if type(key) is not bytes:
        hint = (
            ": encode it; keys are str in a table that is made and opened with key=str" if isinstance(key, str) else ""
        )
        raise InvalidKey(f"a key is bytes, this is {type(key).__name__}{hint}")
    if not 0 < len(key) <= KEY_BYTES_MAX:
        raise key_refusal(key)
    return key


def check_value(value: bytes) -> bytes:
    """Return `value`, or raise `InvalidValue` saying what a value is."""
    if type(value) is not bytes:
        hint = ": encode it" if isinstance(value, (str, int, float)) else ""
        if isinstance(value, str):
            hint += "; values are str in a table that is made and opened with value=str"
        raise InvalidValue(f"a value is bytes, this is {type(value).__name__}{hint}")
    if len(value) > VALUE_BYTES_MAX:
        raise value_refusal(value)
    return value


def iterator_of(given: Iterable[T], wanted: str) -> Iterator[T]:
    """An iterator over an argument, or `InvalidRequest` that says what the call takes."""
    try:
        return iter(given)
    except TypeError as error:
        raise InvalidRequest(f"{wanted}; this is {type(given).__name__}") from error


def record_of(
    operation: Operation,
    key: bytes,
    value: bytes,
    *,
    ttl: float | None = None,
    keep_ttl: bool = False,
    if_absent: bool = False,
    if_present: bool = False,
    if_version: int | None = None,
    grouped: bool = False,
) -> Columns:
    """One record as columns of length one. `ttl` in seconds. Raises `InvalidRequest`, `InvalidKey`, `InvalidValue`."""
    check_key(key)
    check_value(value)
    if ttl is None and not (keep_ttl or if_absent or if_present or if_version is not None or grouped):
        attributes = None if operation == Operation.PUT else (int(operation),)
        return Columns((key,), (value,), attributes)
    return one_record(
        operation,
        key,
        value,
        condition=condition_of(absent=if_absent, present=if_present, version=if_version),
        version=if_version or 0,
        ttl_ms=0 if ttl is None else _ttl_ms(ttl),
        keep_ttl=keep_ttl,
        grouped=grouped,
    )


def _ttl_ms(ttl: float) -> int:
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl * 1000 <= TTL_MS_MAX:
        raise InvalidRequest(f"ttl is a number of seconds above 0 and up to {TTL_MS_MAX // 1000}, not {ttl!r}")
    return max(1, round(ttl * 1000))


def update_of(operations: dict[str, Number | bytes | None]) -> tuple[Operation, bytes]:
    """The operation and operand of `update(key, add=1)`. Exactly one must be given."""
    given = {name: operand for name, operand in operations.items() if operand is not None}
    if len(given) != 1:
        raise InvalidRequest(f"an update takes one of {', '.join(UPDATES_BY_NAME)}; here are {len(given)}")
    ((name, operand),) = given.items()
    operation = UPDATES_BY_NAME[name]
    if operation is Operation.APPEND:
        return operation, check_value(operand)  # type: ignore[arg-type]
    if isinstance(operand, bool) or not isinstance(operand, (int, float)):
        raise InvalidValue(f"{name}= takes a number, not {operand!r}")
    if isinstance(operand, float) and not math.isfinite(operand):
        raise InvalidValue(f"{name}= takes a finite number, not {operand!r}")
    if isinstance(operand, int) and not -(1 << 63) <= operand < 1 << 63:
        raise InvalidValue(f"{name}= takes whole numbers of 64 bits, not {operand}")
    return operation, repr(operand).encode("ascii")


def number_of(result: bytes | None) -> Number | None:
    """The number that an update gave. Raises `UnknownFormat` where the server's answer is none."""
    if result is None:
        return None
    try:
        return int(result)
    except ValueError:
        pass
    try:
        return float(result)
    except ValueError:
        raise UnknownFormat(
            f"the server answers an update with {result[:_SHOWN_BYTES]!r}, which is no number: update this client"
        ) from None
