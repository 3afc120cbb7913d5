"""Rows as columns of Arrow, and columns as rows: the form that pandas, Polars, DuckDB, Parquet and Spark share.

    stored values ── BatchReader ──▶ pyarrow.RecordBatch        a step for each field, over all rows of a batch at once
    RecordBatch ── BatchWriter ──▶ stored keys and values       the same, then each row is judged as the fold judges it

A schema of Avro has one schema of Arrow:

    boolean, int, long, float, double     bool, int32, int64, float, double
    string, bytes, fixed                  string, binary, fixed_size_binary
    enum                                  dictionary of string
    decimal                               decimal128, decimal256 from 39 digits on, string from 77 digits on
    uuid                                  string
    date, time-…, timestamp-…             date32, time32[ms] or time64[us], timestamp[ms or us, UTC]
    local-timestamp-…                     timestamp without a time zone
    array, map, record                    list, map, struct
    a union of null and one other type    the other type, nullable
    any other union                       struct with a field for each type, of which one is not null

What holds:

- N1 A row that is read and written again has the same bytes, where it was written by the schema that reads it, in one
     block for each array and map, and its decimals and UUIDs are in their shortest form. So branches of unions, NaN
     with its bits and digits of decimals survive.
- N2 What is written was judged. A value that does not fit is named by its field; nothing is rounded, cut off or parsed
     from text to make it fit.
- N3 A number that a row claims is compared with the bytes that are there, before memory is taken for it.

What is not here: files (`duramen.loading`), tables (`duramen.client`), Spark's schemas (`spark_bulk`).

These modules import numpy and pyarrow, which are an extra: who uses them imports them late.

Reading order: `arrow_types.py`; reading: `row_bytes.py`, `plain_columns.py`, `decimal_columns.py`, `looped_columns.py`,
`column_readers.py`, `batch_reader.py`; writing: `cast_columns.py`, `value_parts.py`, `batch_writer.py`.
"""
