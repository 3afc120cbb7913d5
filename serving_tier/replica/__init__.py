"""A replica: one partition's index on one node, kept up with the log and read at a known offset.

What an event makes of a replica, and what is to be done about it, is a table (`machine.py`); the replica performs the
effects in their order. It opens or rebuilds its index (`open_index.py`), follows the log with one open read, and hands
each chunk to the applier's thread (`applier.py`). A chunk is cut at barriers, and at the offsets of pinned reads,
before it is folded (`pieces.py`). How far it is, and who waits for an offset, is `replica_progress.py`. Versions that
are not live are kept level by the same applies (`standby.py`). An error while applying is either in the data, and then
the same on every replica, or it stops the replica; it is never skipped.

Two callbacks lead out of a replica (`observer.py`): its one owner hears of events, and observers of what was applied.

Reading order: `machine.py`, `waiters.py`, `lag.py`, `applier.py`, `version_folders.py`, `open_index.py`, `pieces.py`,
`replica_progress.py`, `standby.py`, `pinned_reads.py`, `apply.py`, `void_warnings.py`, `refusals.py`,
`observer.py`, `replica.py`.
"""
