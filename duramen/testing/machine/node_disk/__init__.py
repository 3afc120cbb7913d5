"""A node's own disk that fails: the files of its indexes, copies and snapshots, as `serving_tier.disk` reaches them.

The files are real, in a folder in memory, and so is LMDB, of which each write transaction is one call here. What is
simulated is the answer of the system: any call may fail with EIO, ENOSPC or EACCES, a write may be short, the disk may
be full for a while, and the process may end between two calls. Which call is drawn from a seed: so many after the fault
was armed.

Invariants:

- A call that fails has done nothing, but for a short write, which has written a part and says so.
- A process that has ended at a call changes no file any more, in this life.

What it does not do: it keeps what was not synced, so a sync that is left out costs nothing here. Reads do not fail.

Reading order: `node_fault.py` (what can go wrong), `failing_environment.py` (LMDB's transactions), `failing_calls.py`
(the disk).
"""
