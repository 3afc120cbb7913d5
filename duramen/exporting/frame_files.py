"""Record batches as files: Parquet and Arrow's file format."""

from __future__ import annotations

from typing import IO, Any

from log_tier.model.errors import InvalidRequest

__all__ = ["write_frames"]


def write_frames(reader: Any, file: IO[bytes], file_format: str) -> int:
    """Write a `pyarrow.RecordBatchReader`, and return how many rows it had. Parquet is compressed with zstd.

    Raises `InvalidRequest` for a type that the format does not have.
    """
    import pyarrow as pa
    import pyarrow.ipc
    import pyarrow.parquet

    rows = 0
    schema = reader.schema
    try:
        if file_format == "parquet":
            schema = pa.schema([each.with_type(_without_inner_symbols(each.type, inside=False)) for each in schema])
            writer: Any = pyarrow.parquet.ParquetWriter(file, schema, compression="zstd")
        else:
            writer = pyarrow.ipc.new_file(file, reader.schema)
        with writer:
            for batch in reader:
                writer.write_batch(batch if schema is reader.schema else batch.cast(schema))
                rows += batch.num_rows
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidRequest(f"the rows cannot be written as {file_format}: {error}; export JSON lines") from error
    return rows


def _without_inner_symbols(type_: Any, *, inside: bool) -> Any:
    """The type with text in place of enums inside of others: pyarrow writes those to Parquet, and cannot read them."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_dictionary(type_):
        return pa.string() if inside else type_
    if kinds.is_struct(type_):
        return pa.struct([each.with_type(_without_inner_symbols(each.type, inside=True)) for each in type_])
    if kinds.is_list(type_):
        return pa.list_(type_.value_field.with_type(_without_inner_symbols(type_.value_type, inside=True)))
    if kinds.is_map(type_):
        item = type_.item_field.with_type(_without_inner_symbols(type_.item_type, inside=True))
        return pa.map_(type_.key_type, item)
    return type_
