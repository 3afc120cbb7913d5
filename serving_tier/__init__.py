"""The serving tier: indexes that follow the log, and reads that name an offset.

A **replica** is one partition's index on one node. It has no leader and holds no election: it opens a read on the log,
folds what comes into LMDB, in order, and that is all it ever does to its state. A read names the offset that its answer
must contain, and the replica answers when it has applied that offset.

What the tier promises:

- Data and applied offset commit in one LMDB transaction, so a replica is always exactly *at* an offset.
- The state at an offset is a pure function of the log up to it (I4): `fold/fold.py` has no clock and no randomness, and
  does not see where one batch ends and the next begins. Two replicas at one offset hold equal keys, values and
  versions.
- A read with an offset is never answered from an older state (I5); past its deadline the caller learns both offsets.
- Conditions are decided by the fold, in log order, so every replica reaches the same verdict (I6).
- A replica that nobody uses has its file closed; the next read or write opens it again, without a difference for the
  caller.
- The index is a cache (I10). It is not synced while it works; after a machine crash it is discarded and folded again.
  A crash of the process alone loses nothing, since the kernel holds the pages.

How a record passes: `replica/replica.py` follows the log and hands each chunk to `replica/applier.py`, the one thread
that writes; `index/lmdb/lmdb_index.py` decodes the chunk, asks `fold/fold.py` what it means, commits the effects with
the new applied offset; back on the event loop `replica/waiters.py` wakes the reads that waited for it. A read takes its
own short transaction in whatever thread it runs: LMDB's readers block nobody.

The catalog says which replicas a node has; `node/node.py` opens them, and `node/hosting.py` keeps the node in step with
it. Long operations are in `jobs/` (moves, snapshots, restores, trims); their progress is a state in the catalog.
`snapshots/` makes, checks and installs copies; `locations/` confines the places of versions that callers name; `proof/`
compares what was folded and delivered with the log; `service/` reports the status of the replicas to others, and gives
them copies and digests.

What the tier does not do: it writes to the log only the no-op with which `node/node.py` moves an idle partition's log
time on, the commands that report on a job, and the puts of a point-in-time restore. It does not route, and its reads
know no protocol: both are the business of `router`.

Reading order: `names.py` (what lies where on the disk), `disk.py` (the seam to it), `folders.py`, `fold/` (what a
record means), `index/` (what is stored), `replica/`, `text/` (text indexes that follow replicas), `node/`, then
`snapshots/`, `versions/`, `locations/`, `jobs/`, `proof/` and `service/`.
"""
