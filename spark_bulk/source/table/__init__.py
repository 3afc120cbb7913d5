"""Reads of a table: each task reads one partition's index at one offset, from a file that was checked.

`copies.py` gets an index at the offset: a snapshot where it lies, a replay of the log, a peer's copy, in the order of
`serving_tier.snapshots.source_plan`. `index_file.py` maps its file and reads the rows of its pages. `table_reader.py`
is what Spark calls.

Reading order: `index_file.py`, `copies.py`, `table_reader.py`.
"""
