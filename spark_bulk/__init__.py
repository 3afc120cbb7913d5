"""Spark: a data source over tables and their logs, and the jobs that build, derive and export whole tables.

**What it promises.** A DataFrame over a table shows the state at one offset of each partition, exactly the one that a
token names, or the log's end when the query was planned. One over its log shows every change once, in order per
partition, from any position that the log covers. Rows that Spark writes are in the log once each, whatever task fails,
runs twice or is run again. Rows that Spark places lie in the partition in which a client looks for them.

**How it is made.** Spark does what Spark is good at: reading and writing files, sorting, shuffling, trying again.
Nothing here is a distributed engine. What is here is the way between Arrow's columns and our formats: batches of the
log, pages of an index, snapshots.

    driver                                          executors
    ──────                                          ─────────
    asks any server for the cluster's map           get one partition of the table each:
    asks the log for its ends                         a snapshot from the store, or a peer's copy → pages → columns
    plans one task for each partition                 batches from the log → columns
                                                      columns → placed → batches to the log

- `source/` is the data source, `format("duramen")`: its essay has the options.
- `build/` makes a version of a table from any data frame, `repush.py` from the table's own content.
- `export/` writes a table or its changes as Parquet.
- `runtime/` is what they share: which partition a row belongs to (the router's function over Arrow columns, checked
  against it), the event loop of an executor, Spark's failures as errors of ours, what must be installed.

**Invariants.** Executors connect to the log and to the nodes directly; there is no server of Spark's own, and no state
of a job in Duramen but the producer ids in the log. What is fetched is checked as a node checks it (checksum,
structure, identity, offset) before anything is read from it. Every error says which row, column, file or offset it is
about.

**What it deliberately does not do.** It imports neither the router nor the client: a job that reads 1,024 partitions
goes to where they lie. It holds no transaction over several partitions: a failed write job leaves what it had written.
It does not hide Spark: options, schemas and checkpoints are Spark's own.

**Where it runs.** Wherever PySpark 4.2 or newer does, on the driver and on every executor: `pip install
'duramen[spark]'`, and Java 17 or newer. `register(spark)` makes the data source known to a session; importing this
package imports none of Spark.

**Reading order**: `runtime/` (what driver and executors share), `source/` (reads and writes by Spark's own calls), then
the jobs: `build/`, `repush.py`, `export/`; `spark_session.py` is a Spark for the command line.
"""

from __future__ import annotations

from typing import Any

from spark_bulk.runtime.requirements import check_interpreter, check_packages

__all__ = ["register"]


def register(spark: Any) -> None:
    """Make `format("duramen")` known to a SparkSession: `spark.read`, `readStream`, `df.write`, `writeStream`.

    Raises `InvalidRequest` where PySpark, PyArrow or pandas is missing, or too old, and where the Python that Spark
    starts on this machine cannot import this package.
    """
    check_packages()
    # A session of Spark Connect has no context: its workers are the server's.
    context = getattr(spark, "sparkContext", None)
    if context is not None:
        check_interpreter(context.pythonExec)
    from spark_bulk.source.data_source import DuramenDataSource

    spark.dataSource.register(DuramenDataSource)
