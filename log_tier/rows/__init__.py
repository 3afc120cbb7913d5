"""Rows: what is inside keys that have fields. Pure.

A key is bytes to the log, the fold and the index. Here it becomes a tuple of typed fields whose bytes sort as the
fields do, so a scan of a range of fields is a scan of a range of keys.

What holds:

- W1 Two tuples are in the same order as their keys, where fields at one place are of one type.
- W2 A tuple has one key, and a key is of one tuple: `unpack_key` refuses what `pack_key` does not make.
- W3 The keys that begin with the same fields are neighbours, and no other key lies between them.
- W4 Elements that FoundationDB's tuple layer has are encoded as there (its `design/tuple.md`), so its clients in other
     languages read and make such keys. Dates and times have codes that it leaves to users.

What is not here: a table does not know that its keys have fields, nor which types they have.

Reading order: `elements.py`, `tuple_key.py`.
"""
