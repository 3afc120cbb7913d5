"""The bulk build: a data set becomes a version of a table, which the cluster takes over whole.

    data frame → key and value as bytes → its partition → task n has partition n, sorted → LMDB, row after row
              → a compact copy with checksums → the version's place → read back → the version's manifest

What holds:

- B1 Each row is in the partition where the router looks for its key: the same function, checked by shared vectors; and
     each task proves, by a mark that it must find exactly once, that it has one whole partition.
- B2 Rows in = rows written + rows dropped by the rule for duplicates, for every partition, and the finished index is
     asked for its number of keys. Order is checked by LMDB itself.
- B3 A version exists when its manifest does, written by the driver when every partition's snapshot was read back from
     the store. What other attempts left is removed; a build that fails leaves nothing, if its driver lives.
- B4 A build is a function of its rows: a task that is killed, or run twice at once, gives the same content.
- B5 Each partition joins the live log at the offset in the manifest, at least 0, which is also the version of its rows:
     what is written after it comes on top.
- B6 Memory is flat, in Spark (its sort spills) and in the writer (bounded transactions, mapped pages given back).
- B7 Bad input is refused by name, as a typed error: which column, which key. It does not make Spark try again.

How a build passes through: `version_build.py` plans and commits; `bases.py` finds the offsets; `frame.py` makes rows of
the data frame and sends them to their tasks; in the task `partition_build.py` takes its rows through
`partition_rows.py` (what is a row, which one of several) into `index_writer.py`, and reports to the driver by
`outcome.py`.

What is not here: who stages, swaps and rolls back versions (`serving_tier.versions`), and building one from a table's
own content (`spark_bulk.repush`). Builds are not resumed: what is cheap to repeat needs no state. No `DISTINCT`, no
joins, no cleaning: a data frame has them all.

Reading order: `partition_rows.py`, `index_writer.py`, `outcome.py`, `partition_build.py`, `bases.py`, `frame.py`,
`version_build.py`; all of them use `mapped_memory.py`.
"""

from __future__ import annotations

__all__: list[str] = []
