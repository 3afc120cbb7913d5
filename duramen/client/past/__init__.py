"""What a table that keeps a history had before: scans of one state, and comparisons of two.

A state is an offset for each partition. A token names them; where a time is given, the partitions say at which offset
they read the first page, and every later page is read there too. So what is written meanwhile changes nothing, and what
the history no longer keeps ends the scan with `HistoryGone`.

One key is read by `duramen.client.key_reads`, and what a table's client is to all of this is in `states_lookup.py`.

Reading order: `states_lookup.py`, `past_scans.py`, `differences.py`, `befores.py` (what each change of a watch
replaced), `table_states.py`.
"""
