"""Export: a table's content, or its change feed, as Parquet files that any tool reads.

What holds:

- E1 An export exists when its manifest does: files first, synced, the manifest last. What has none is a leftover.
- E2 An export says what it is of, exactly: for every partition the offset behind which it begins and the one with which
     it ends. So the exports of a feed tile it: each begins where the last one ended, and no change is in two of them.
- E3 One file for each partition that has rows, written by one task; a task that is run again writes another file, and
     the manifest names the one that counts.
- E4 Memory is a row group for each task, whatever the size of a partition.
- E5 The manifest has the number of rows of each partition and a checksum over them, counted as they were written. It is
     the same for any order of the rows and any split into files (`row_checksum.py`).

How an export passes through: `export.py` asks where the table is and what the last export at the place went up to; each
task (`export_tasks.py`) gets its partition's state from a snapshot, a replica or the log
(`spark_bulk.source.table.index_copies`), or its changes from the log (`spark_bulk.source.log.feed`), and writes them;
the driver writes the manifest (`manifest.py`, pure) and removes what it does not name (`export_place.py`).

`spark.read.parquet(f"{url}/{manifest.folder}")` reads one back, with `partition` as a column. Text columns, JSON and
the like are a matter of `spark.read.format("duramen")` and Spark's own writer; these files keep the bytes, or text by
choice, and versions and expiries in columns of their own.

`duramen audit data TABLE --export URL` compares exports with the table (`audit.py`): manifest, files, and what the
table held at the offset, without Spark's JVM.

What is not here: a schedule (cron has one), merging of exports, formats other than Parquet.

Reading order: `row_checksum.py`, `manifest.py`, `export_place.py`, `export_tasks.py`, `export.py`, `comparison.py`,
`audit.py`.
"""

from __future__ import annotations

from spark_bulk.export.export import export_changes, export_table
from spark_bulk.export.export_place import ExportPlace
from spark_bulk.export.manifest import ExportManifest

__all__ = ["ExportManifest", "ExportPlace", "export_changes", "export_table"]
