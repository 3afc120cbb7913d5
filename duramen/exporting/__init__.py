"""A table of rows into one file: CSV, JSON lines, Parquet or Arrow. `duramen load` takes each of them back.

    pages of a scan ──▶ rows of older schemas by the newest ──▶ JSON ──▶ CSV, JSON lines      (`text_files.py`)
                                                            ╰─▶ record batches ──▶ Parquet, Arrow (`frame_files.py`)

What holds:

- The file appears whole, under its name, when it is on stable storage, or not at all.
- Memory is bounded by a page of the scan and a row group, whatever the size of the table.
- Rows are in the order of the key. Pages are as consistent as those of `scan`; `after=` is the least state.
- What is loaded again into a table of the same schema has the same bytes.

What is not here: exports of whole tables by Spark, in folders with a manifest (`spark_bulk.export`).

Reading order: `text_files.py`, `frame_files.py`, `run.py`.
"""

from duramen.exporting.run import ExportSummary, export_rows

__all__ = ["ExportSummary", "export_rows"]
