"""The log tier: partitioned, totally ordered, durable logs, and the bytes that travel through all of Duramen.

**What it promises.** A caller whose append returned an offset can rely on three things: the bytes are on stable
storage, at that offset, and they will be the same bytes whenever they are read, until retention or compaction removes
them. The offset is the clock of the whole system: everything above orders itself by it.

**What it is made of.**

- The *vocabulary*, `model/`: records, batches (the unit that is encoded, sent, appended, synced, shipped and applied,
  the same bytes everywhere), partitioners, tokens, identifiers and errors. It is pure: no clock, no socket, no thread,
  no file.
- The *seam*, `model/log.py`: what a log engine must do. Everything above this tier sees nothing else, and one contract
  suite runs against every engine. `open.py` finds the engine that a URL names.
- The *engines*: `embedded/` keeps a log in files of this machine, `kafka/` in the topics of a Kafka cluster. `remote/`
  puts any log behind gRPC; its client is a `Log` again.
- What *every tier* uses: `concurrency/` (waiting, threads, clocks, retries), `privacy/` (files that other users of the
  machine cannot read) and `rpc/` (gRPC channels, errors on the wire).
- The *tally*, `tally/`: what every tier counts of a partition, minute by minute. Pure.
- *Measures*, `measures/`: histograms of what a part's work takes, and what took long. Pure.
- *Tracing*, `tracing/`: the seam at which parts add their spans to a caller's trace. Pure.
- *Rows*, `rows/`: keys with fields, schemas of rows, and the definition of what a table holds. Pure.
- *Trust*, `trust/`: users, roles and grants, and what they allow. Pure.
- The *catalog*, `catalog/`: which tables, nodes and jobs there are, folded from a log of its own.
- The *audit*, `audit/`: the events of a server that become rows of a table.
- *Access*, `access/`: the one place that decides what a caller may do.
- The *slow log*, `slow_calls/`: the last calls of a server that took long, and where their time went.

**Invariants.** Offsets are inclusive, rise by one as written, and are never given twice. A batch is stamped by the log
that takes it and otherwise never changed: its producer's checksum covers it from the producer to every reader. Batches
do not know of tables' schemas, keys' meanings or replicas. A topic's id is never reused, so a token or a replica of a
topic that was deleted is recognised. Every limit has a name, a reason, and a typed error.

**How a write passes through.** A client encodes records as a batch (`encode_batch`). An engine checks it
(`check_batch`), gives it its place (`stamp_batch`), writes and syncs it, and answers with an offset. Followers get the
stored bytes as they are, in chunks of whole batches (`split_batches`), check them, and decode them (`decode_batch`).

**What it deliberately does not do.** It does not decide: whether a conditional record takes effect is for the fold
(`serving_tier.fold.fold`), which reaches the same verdict on every replica. It does not deduplicate: it carries
producer ids and sequences, and the fold voids what comes twice. It holds no index by key. It imports nothing from the
tiers above.

**Reading order**: `model/` (the vocabulary, and the seam `model/log.py`), `concurrency/`, `privacy/`, `tally/`,
`measures/`, `tracing/`, `rows/`, `rpc/`, then the engines `embedded/`, `kafka/` and `remote/`, `open.py` (which engine
a URL names), `trust/`, `catalog/`, `audit/`, `access/` and `slow_calls/`.
"""
