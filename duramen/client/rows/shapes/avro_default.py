"""The default of a field, a Python value, as JSON in a schema of Avro."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

__all__ = ["avro_default"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def avro_default(value: Any, scale: int = 0) -> Any:
    """What stands in the schema. `scale`: of a decimal. Raises `ValueError` for a value that is no constant of Avro."""
    match value:
        case None | bool() | int() | str() if not isinstance(value, Enum):
            return value
        case float():
            return value
        case Enum():
            return value.name
        case bytes():
            return value.decode("latin-1")
        case UUID():
            return str(value)
        case Decimal():
            return _decimal(value, scale)
        case datetime():
            aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return (aware - _EPOCH) // _MICROSECOND
        case date():
            return value.toordinal() - _EPOCH.toordinal()
        case time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        case list():
            return [avro_default(each, scale) for each in value]
        case dict():
            return {key: avro_default(each, scale) for key, each in value.items()}
    raise ValueError(f"{type(value).__name__} is no constant")


def _decimal(value: Decimal, scale: int) -> str:
    scaled = value.scaleb(scale)
    if not value.is_finite() or scaled != scaled.to_integral_value():
        raise ValueError(f"it has at most {scale} digits behind the point")
    whole = int(scaled)
    return whole.to_bytes((whole.bit_length() + 8) // 8, signed=True).decode("latin-1")
