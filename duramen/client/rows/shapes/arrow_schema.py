"""From an Arrow schema to a schema of Avro. Whatever has an Arrow schema by the C interface can be given: pyarrow,
Polars.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, runtime_checkable

from duramen.client.rows.shapes.hints import schema_refusal
from log_tier.model.errors import InvalidRequest

__all__ = ["ArrowSchema", "arrow_schema"]

_NAME: Final = "Row"

_SCALARS: Final[dict[str, Any]] = {
    "bool": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "uint8": "int",
    "uint16": "int",
    "uint32": "long",
    "halffloat": "float",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "binary": "bytes",
    "large_binary": "bytes",
    "binary_view": "bytes",
    "date32[day]": {"type": "int", "logicalType": "date"},
    "date64[ms]": {"type": "int", "logicalType": "date"},
    "time32[ms]": {"type": "int", "logicalType": "time-millis"},
    "time32[s]": {"type": "int", "logicalType": "time-millis"},
    "time64[us]": {"type": "long", "logicalType": "time-micros"},
}

_INSTEAD: Final = {
    "uint64": "Avro's long is signed: cast it to int64 or decimal128(20, 0)",
    "time64[ns]": "Avro's times have microseconds: cast it to time64('us')",
    "null": "say which type it is",
}


@runtime_checkable
class ArrowSchema(Protocol):
    """What has an Arrow schema, by Arrow's C interface."""

    def __arrow_c_schema__(self) -> object:
        """A capsule with the schema."""


def arrow_schema(given: ArrowSchema) -> dict[str, Any]:
    """The record of Avro that has the same fields. Nullable fields are unions with null, and null is their default.

    Raises `InvalidSchema` for a type that Avro does not have, with what to cast it to; `InvalidRequest` without
    pyarrow.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise InvalidRequest("an Arrow schema needs pyarrow: pip install 'duramen[parquet]'") from error
    return _record(pyarrow.schema(given), _NAME, "")


def _record(fields: Any, name: str, path: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(each, name, path) for each in fields]}


def _field(field: Any, parent: str, path: str) -> dict[str, Any]:
    inside = f"{path}.{field.name}" if path else field.name
    found = _type(field.type, f"{parent}_{field.name}", inside)
    if not field.nullable:
        return {"name": field.name, "type": found}
    return {"name": field.name, "type": ["null", found], "default": None}


def _type(arrow: Any, name: str, path: str) -> Any:
    import pyarrow.types as kinds

    found = _SCALARS.get(str(arrow))
    if found is not None:
        return found
    if kinds.is_timestamp(arrow) and arrow.unit != "ns":
        unit = "micros" if arrow.unit == "us" else "millis"
        return {"type": "long", "logicalType": f"timestamp-{unit}" if arrow.tz else f"local-timestamp-{unit}"}
    if kinds.is_decimal(arrow) and arrow.scale >= 0:
        return {"type": "bytes", "logicalType": "decimal", "precision": arrow.precision, "scale": arrow.scale}
    if kinds.is_fixed_size_binary(arrow):
        return {"type": "fixed", "name": name, "size": arrow.byte_width}
    if kinds.is_dictionary(arrow):
        return _type(arrow.value_type, name, path)
    if kinds.is_struct(arrow):
        return _record([arrow.field(number) for number in range(arrow.num_fields)], name, path)
    if kinds.is_map(arrow) and _SCALARS.get(str(arrow.key_type)) == "string":
        return {"type": "map", "values": _nullable(arrow.item_field, name, path)}
    if kinds.is_list(arrow) or kinds.is_large_list(arrow) or kinds.is_fixed_size_list(arrow):
        return {"type": "array", "items": _nullable(arrow.value_field, name, path)}
    why = _INSTEAD.get(str(arrow), "cast it to one that Avro has")
    if kinds.is_timestamp(arrow):
        why = f"Avro's timestamps have microseconds: cast it to timestamp('us'{', tz' if arrow.tz else ''})"
    raise schema_refusal(path, f"Arrow's {arrow} has no type of Avro: {why}")


def _nullable(field: Any, name: str, path: str) -> Any:
    found = _type(field.type, name, f"{path}[]")
    return ["null", found] if field.nullable else found
