"""Tables of rows as Arrow, and Arrow as rows of a table.

    flights.to_arrow(columns=["carrier", "delay"], where={"carrier": "UA"})        a pyarrow.Table
    polars.from_arrow(flights), duckdb.sql("SELECT … FROM flights")                by Arrow's stream protocol, no copy
    flights.put_many(table | reader | pandas or Polars frame)                      whatever has that protocol

What holds:

- O1 Columns are those of the table's newest schema that the client knows; rows of all others are read by it, also of
     one that comes while a stream is read.
- O2 A stream has one batch for each page of the scan. Pages are as consistent as those of `scan`, and each is at least
     as new as the one before it; `after=` is the least state that they show, `at=` the one that all of them show.
- O3 What `where` says of the first fields of the key decides what is read; the rest is filtered here, batch by batch.
- O4 Frames that are put are judged column by column before a row leaves; nothing is rounded or parsed to fit.

pyarrow and numpy are the extra `duramen[parquet]`, imported by the first call.

Reading order: `arrow_extra.py`, `row_filter.py`, `batch_scan.py`, `batch_scans.py`, `row_frames.py` (reading),
`given_frames.py` (writing).
"""
