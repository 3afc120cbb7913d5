"""Unique indexes in the fold: `unique_rows.py` decides whether another row has a value. Pure.

What holds:

- U1 Of each value of a unique index at most one row of the live version has it, at every offset and log time.
- U2 Whether a record is rejected depends on the records before it and their log times alone: not on where a chunk ends,
     which expired rows are swept, or what else the replica has applied.
- U3 Who is first in the log has the value. A row that is rejected has changed nothing, nor has its group.
- U4 A record that the live version accepted takes effect in every version. There the row that it meets expires.
"""
