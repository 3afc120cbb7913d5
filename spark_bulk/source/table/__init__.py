"""Reads of a table: each task reads one partition's index at one offset, from a file that was checked.

`index_copies.py` gets an index at the offset: a snapshot where it lies, a replay of the log, a peer's copy, in the
order of `serving_tier.snapshots.source_plan`. `closed_index_file.py` maps its file and reads the rows of its pages.
`row_pages.py` makes columns of stored rows, those of each schema by `schema_columns.py`. `table_reader.py` is what
Spark calls.

Reading order: `closed_index_file.py`, `index_copies.py`, `schema_columns.py`, `row_pages.py`, `table_reader.py`.
"""
