"""Text indexes: words of rows, found by tantivy, one index for each text index of a table and each replica.

A text index is a follower of its own. It takes what the replica's fold has applied, reads the rows that changed from
the replica's LMDB in one read transaction, and is then exactly at that transaction's offset. Its applied offset is part
of its own commit. Nothing of it is in the log or in LMDB: no fold, no snapshot, no move and no digest knows of it.

What the room promises:

- T1 A search is answered at one offset, which the answer names: it finds each row that is live at that offset and
  matches, with the value that it had then, and no other. An expired row is absent from the log time of that offset on.
- T2 A search with an offset is answered when the index has come to it. One that cannot be answered is refused by
  `IndexBuilding`; it is never answered by a part of the rows.
- T3 The fold never waits for a text index. Where rows change faster than they are indexed, the index is behind, and its
  memory is bounded: past `PENDING_KEYS_MAX` keys it is built anew from LMDB.
- T4 The folder may be deleted or damaged at any time: the index is built again from LMDB.
- T5 No query takes more than its limits allow (`text_query.py`): a query is refused before tantivy sees it.

**Layers.** A commit of tantivy to disk takes some twenty syncs. So rows that just changed go into a small index in
memory first, which is searched with the one on disk (`text_store.py`), and which goes to disk every few seconds. A row
of an older layer that a newer one covers is not shown. What was in memory when a process died is indexed again: the
index on disk says its offset, the log says which keys changed since, LMDB has the rows.

**Scores** are BM25's by the statistics of one layer of one partition, and comparable as far as those are alike.

What the room does not do: it reads no log except for keys after a restart, it keeps nothing beyond the live rows, and
it does not carry a text index to another node: that one builds its own.

Reading order: `text_query.py`, `text_page.py`, `text_rows.py`, `text_damage.py`, `text_layer.py`, `text_store.py`,
`text_changes.py`, `text_follower.py`, `replica_texts.py`, `node_texts.py`.
"""
