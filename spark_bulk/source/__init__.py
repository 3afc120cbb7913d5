"""The data source: `format("duramen")` for batches and streams, in pure Python, Arrow batches both ways.

    spark_bulk.register(spark)
    place = {"at": "localhost:7070", "table": "flights"}
    spark.read.format("duramen").options(**place).load()                       the table, now
    spark.read.format("duramen").options(**place, token=token).load()          … as it was at a token
    spark.read.format("duramen").options(**place, log="true", **{"from": a, "to": b}).load()      its log
    spark.readStream.format("duramen").options(**place, log="true").load()     its changes, as they come
    df.write.format("duramen").options(**place).mode("append").save()          rows into the table
    df.writeStream.format("duramen").options(**place).option("checkpointLocation", folder).start()

Columns of a table: `key, value, version, partition, expires_at` (version: the offset of the last write). Columns of a
log: `table, partition, offset, timestamp, operation, key, value`. Columns that are written: `key`, `value`, and where
wanted `operation`, `expires_at` or `ttl_ms` (`writes/drafted_rows.py`).

A table of rows has the columns of its schema, both ways: `carrier STRING, flight BIGINT, tailnum STRING, …`
(`model/row_columns.py` has the types). `.schema("carrier STRING, version BIGINT")` reads some of them, and `key`,
`version`, `partition` and `expires_at` as well. `values=bytes` reads the stored form, with the columns from above.

    every read    at, table        any server (of a cluster on Kafka: a router with `client_log`), and the table
                  keys, values     bytes or utf8; values also json, with `schema` naming the fields, and rows. The
                                   default is rows where the table has them, else bytes
                  timeout          seconds to go on trying where something is away or busy (600)
                  ca, token_file, user         of a cluster with TLS and users, see below
    a table       token            the state at exactly that token; partitions that it does not name are read as of now
                                   `snapshot`: each partition as its newest snapshot has it, the fastest way
                  key, prefix, start, end      a range of keys (text, or base64:…); one key is one task
                  where            of rows: a value or a range of each field, `{"carrier": "UA", "flight": [10, 20]}`
                  snapshots        the URL of the snapshot store; without it snapshots are not used
                  folder           where copies of indexes lie while they are read (Spark's own folder)
    a log         log              true
                  from, to         tokens; `from` also earliest (default) or latest, `to` also latest (default)
                  records          accepted (default), or all: also what changed nothing
                  maxRecordsPerTrigger         of a stream
    every write   at, table, timeout, ca, token_file, user
                  values           json: make one JSON object of all columns that are not ours. Not for tables of rows
                  job              a name under which a job that is submitted twice writes once
                  compress         true: batches are zstd-compressed

What holds:

- R1 A partition is read at one transaction; a log shows each change once, in order, and no record that changed nothing.
- R2 Nothing is read from a file that was not checked: every piece against its manifest, the structure of every page,
     whose it is and at which offset.
- R3 A stream's position names the table by its id. Where the log does not go on there, the stream ends with an error
     that says from where it could; it never skips.
- R4 A row that cannot be written ends the job with its task, row, column and content; nothing is left out in silence.
     What a table of rows would take for void (a row that does not fit, an entry too long for an index) never leaves.
- R5 What a task writes twice counts once.

**Which state a read shows.** A partition is always read at one transaction. With a token it is exactly the token's
offset, for every reader and every repetition. Without one it is the log's end when the first query of the DataFrame was
planned (Spark keeps that plan), or newer where the copy that a node gave was newer: a task that is tried again may then
see more. Take a token where that matters. A snapshot of exactly the wanted offset is read where it lies, four times as
fast as a peer's copy.

**Columns.** Spark does not pass the columns that a query needs to a Python data source. Name them: `.schema("key
STRING, version BIGINT")` reads those alone, and `values=json` with `.schema(...)` takes every other name for a field.

**Rows of earlier schemas** are read with the defaults of the newest one that the table has when a query is planned.
A row of a schema that came while a query ran ends it with `UnknownFormat`: read again.

**Filters.** A query's filters are not pushed down: the options `key`, `prefix`, `start` and `end` name the pages that
are read, and Spark filters what it gets. Spark 4 keeps the reader of a DataFrame's first query, with the filters that
were pushed into it, and answers the next query from it (decision 29). Of rows `where` says the same by fields, as
`find` takes it: a value, or `[start, end]` with null for an open end. What it says of the first fields of the key is
the range of keys that is read, in one partition where the fields of `partition_by` have values; the rest, indexed or
not, is looked at before a row becomes columns. It belongs to its DataFrame, and every query over that sees those rows.

**SQL.** `CREATE TEMPORARY VIEW v (key STRING, value STRING) USING duramen OPTIONS (at '…', `table` '…')` is read and
written (`INSERT INTO v`). `CREATE TABLE t USING duramen OPTIONS (…)`, without a list of columns, is read, also with
options for one query: `SELECT … FROM t WITH (prefix = 'UA')` (`model/catalog_tables.py`).

**A cluster with TLS and users.** `at="duramens://alice@db1:7070"` with `ca`, the file of the CA that signed the
servers' certificates, and `token_file`, a file of mode 0600 with alice's token; without these options DURAMEN_CA and
DURAMEN_TOKEN_FILE. Plans, checkpoints and tasks hold the paths: the driver and each executor open the files themselves,
at the same path on each machine, and a file that is replaced counts from the next call on. No option takes a secret.
A read needs the grant `read` on the whole table, since it copies an index and reads the log; a write needs `write`
(`model/cluster_login.py`).

**Exactly once, and what it needs of your rows**: `writes/writer.py`.

**How a read passes.** `data_source.py` → `table/table_reader.py` plans with `model/table_place.py`; each task gets an
index at its offset (`table/index_copies.py`: a snapshot where it lies, a replay, a peer's copy), maps its file and
turns pages into columns (`table/closed_index_file.py`, `model/columns.py`; rows by `table/row_pages.py`).
`log/log_reader.py` reads batches from the log and asks a replica which of their records changed nothing
(`log/feed.py`, `log/changes.py`); a stream's position is in Spark's checkpoint alone (`log/positions.py`).

**How a write passes.** `writes/writer.py` → `writes/encoded_rows.py`, where columns are those of rows →
`writes/drafted_rows.py` checks, places and drafts; `writes/appender.py` encodes and appends, with the producer ids and
sequences of `writes/identities.py`.

**What it deliberately does not do.** No column is pruned and no filter pushed down. A table's versions are
not named: a read shows the one that is live at its offset. A write is not a transaction over partitions, and waits for
no verdicts. Indexes are not read: a copy of the partition is fetched anyway. Changes of rows are stored bytes. Nothing
is cached between jobs: two reads of one table fetch it twice.

Reading order: `model/` (options and places), `table/`, `log/`, `writes/`, `data_source.py` (what Spark calls first).
"""
