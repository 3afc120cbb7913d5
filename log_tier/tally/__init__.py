"""The tally: what was counted of a partition's log, minute by minute, the same at every tier.

    log        ── the batches that its files hold ──▶ periods ──┐
    replica 1  ── the batches that it folded ───────▶ periods ──┼─▶ equal, or different: these offsets
    replica 2  ── the batches that it folded ───────▶ periods ──┘

Offsets are dense, so completeness is arithmetic. A tier that took every batch of a minute once, in order and whole, has
the same first offset, last offset, count and checksum as the log. A batch that is missing, that came twice or that is
another one changes a number.

- T1 A batch belongs to the minute of the log time behind it: the largest timestamp in the log up to that batch. The log
     stamped it; no tier's clock takes part. Log time never falls, so a minute is one run of offsets.
- T2 `offsets` counts the offsets that batches occupy. It is last - first + 1 unless a batch is missing.
- T3 A batch adds `stamp checksum × (2 × base offset + 1)` to the checksum, modulo 2^64, when its first offset is
     counted. The stamp checksum covers table, partition, base offset, time and, through the body checksum, all records.
     A batch that is counted in two parts, since a fold ended inside of it, adds that once.
     A record of another producer on Kafka, where the fetch cuts batches, counts by itself (`parts.py`).
- T4 Periods merge: the tally of two neighbouring runs is the sum of both. So a cut changes nothing, and minutes
     that were folded to hours can still be compared.
- T5 What is kept is bounded: an hour of minutes, a day of hours (`keep.py`).
- T6 What a node cannot count, exports and clients' sessions, is audited by who knows of it, and the result stays with
     the table as a note, in the catalog (`audit_note.py`). A difference stays until it is audited again.

What is not here: where a replica keeps its tally (in the transaction of the fold, `serving_tier.index.lmdb`), and who
asks whom: each node by itself (`serving_tier.proof`), and an operator (`router.admin.audits.audit_data`).

Reading order: `period.py`, `count.py`, `parts.py`, `keep.py`, `compare.py`, `missing.py`, `acknowledged.py`,
`proof.py`, `audit_note.py`.
"""
