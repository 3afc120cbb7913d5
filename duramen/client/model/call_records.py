"""From a call's arguments to records: what `put(..., ttl=3600, if_absent=True)` means in a batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from duramen.client.model.results import Number
from log_tier.model.batch import Columns
from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue
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

__all__ = ["check_key", "check_value", "iterator_of", "joined", "number_of", "record_of", "update_of"]

T = TypeVar("T")

_UPDATES: Final = {
    "add": Operation.ADD,
    "multiply": Operation.MULTIPLY,
    "min": Operation.MIN,
    "max": Operation.MAX,
    "append": Operation.APPEND,
}


def check_key(key: bytes) -> bytes:
    """Return `key`, or raise `InvalidKey` saying what a key is."""
    if type(key) is not bytes:
        hint = ": encode it" if isinstance(key, str) else ""
        raise InvalidKey(f"a key is bytes, this is {type(key).__name__}{hint}")
    if not 0 < len(key) <= KEY_BYTES_MAX:
        if not key:
            raise InvalidKey(f"the key is empty; keys have 1 to {KEY_BYTES_MAX} bytes", size=0, limit=KEY_BYTES_MAX)
        raise InvalidKey(
            f"the key {key[:24]!r}… has {len(key)} bytes; keys have 1 to {KEY_BYTES_MAX}: hash what is longer",
            size=len(key),
            limit=KEY_BYTES_MAX,
        )
    return key


def check_value(value: bytes) -> bytes:
    """Return `value`, or raise `InvalidValue` saying what a value is."""
    if type(value) is not bytes:
        hint = ": encode it" if isinstance(value, (str, int, float)) else ""
        raise InvalidValue(f"a value is bytes, this is {type(value).__name__}{hint}")
    if len(value) > VALUE_BYTES_MAX:
        raise InvalidValue(
            f"the value has {len(value)} bytes; values have at most {VALUE_BYTES_MAX}: "
            "cut it in pieces, or store its address",
            size=len(value),
            limit=VALUE_BYTES_MAX,
        )
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
    condition = Condition.NONE
    if if_absent + if_present + (if_version is not None) > 1:
        raise InvalidRequest("give one of if_absent, if_present and if_version")
    if if_absent:
        condition = Condition.ABSENT
    elif if_present:
        condition = Condition.PRESENT
    elif if_version is not None:
        if type(if_version) is not int or not -1 <= if_version < 1 << 63:
            raise InvalidRequest(f"if_version is an entry's version, or -1 for an absent key, not {if_version!r}")
        condition = Condition.VERSION
    expiry, expires = Expiry.NONE, 0
    if ttl is not None:
        expires = _ttl_ms(ttl)
        expiry = Expiry.TTL
    elif keep_ttl:
        expiry = Expiry.KEEP
    attribute = attribute_of(operation, condition=condition, expiry=expiry, grouped=grouped)
    return Columns(
        (key,),
        (value,),
        None if attribute == PLAIN_PUT else (attribute,),
        None if if_version is None else (if_version,),
        None if ttl is None else (expires,),
    )


def _ttl_ms(ttl: float) -> int:
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl * 1000 <= TTL_MS_MAX:
        raise InvalidRequest(f"ttl is a number of seconds above 0 and up to {TTL_MS_MAX // 1000}, not {ttl!r}")
    return max(1, round(ttl * 1000))


def update_of(operations: dict[str, Number | bytes | None]) -> tuple[Operation, bytes]:
    """The operation and operand of `update(key, add=1)`. Exactly one must be given."""
    given = {name: operand for name, operand in operations.items() if operand is not None}
    if len(given) != 1:
        raise InvalidRequest(f"an update takes one of {', '.join(_UPDATES)}; here are {len(given)}")
    ((name, operand),) = given.items()
    operation = _UPDATES[name]
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
    """The number that an update gave."""
    if result is None:
        return None
    text = result.decode("ascii")
    try:
        return int(text)
    except ValueError:
        return float(text)


def joined(records: Sequence[Columns]) -> Columns:
    """Several records as one set of columns, with only the columns that some record needs."""
    count = len(records)

    def column(name: str, default: int) -> list[int] | None:
        cells = [getattr(record, name) for record in records]
        if not any(cells):
            return None
        return [cell[0] if cell else default for cell in cells]

    attributes = column("attributes", PLAIN_PUT)
    keys = [record.keys[0] for record in records]
    values = [record.values[0] for record in records]
    assert len(keys) == count
    return Columns(keys, values, attributes, column("versions", 0), column("expiries", 0))
