"""A replica: one partition's index on one node, kept up with the log and read at a known offset.

A replica opens or rebuilds its index (`open_index.py`), follows the log with one open read, and hands each chunk to the
applier's thread (`applier.py`). Readers that name an offset wait in `waiters.py` until it is applied. Versions that are
not live are kept level by the same applies (`standby.py`). An error while applying is either in the data, and then the
same on every replica, or it stops the replica; it is never skipped.

Reading order: `waiters.py`, `lag.py`, `applier.py`, `version_folders.py`, `open_index.py`, `standby.py`,
`pinned_reads.py`, `digest.py`, `apply.py`, `unreadable_warnings.py`, `replica.py`.
"""
