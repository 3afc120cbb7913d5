"""The data that RESP commands see: tables, fresh reads, gathered writes.

Reads are answered from an index of this process where it is fresh enough, else by the data plane, which waits. Plain
writes of all connections gather into one batch per partition. Commands that read before they write run on an overlay of
what is stored, and the log decides whether what they read still held.

Reading order: `stored_entries.py`, `key_views.py`, `value_cache.py`, `freshness_page.py`, `trust_cell.py`, `floors.py`,
`served_tables.py`, `openings.py`, `local_reads.py`, `reads.py`, `shared_writer.py`, `rounds/` (commands that read and
write), `native_batches.py`, `cursors.py`, `channels.py`, `notifications.py` (who is sent which changes).
"""
