"""The index in LMDB: one environment per partition and version.

`format.py` says which LMDB databases there are and what a row of each looks like; every other module uses its packing
functions. Write transactions belong to the applier. Readers may be in other processes (`shared_reader.py`):
they need no lock and see data and applied offset in one transaction. No sync per transaction: the log is the truth, and
an index that may be unclean after a machine restart is discarded (`folder.py`).

Reading order: `format.py`, `identity.py`, `environment.py`, `folder.py`, `lmdb_reads.py`, `bookkeeping.py`,
`counts.py`, `fold_transaction.py`, `summary.py`, `open_environments.py`, `index_file.py`, `lmdb_index.py`,
`pinned_read.py`, `shared_reader.py`, `pages.py`.
"""
