"""What the client's parts speak in: arguments, results, levels of reading, and what a session has seen. No connection.

- `results.py`: what calls return.
- `asked_index.py`: an ordered index, as `create_table` is asked for it.
- `table_options.py`: what a table is made with, whatever is in it; `asked_table.py`: its description.
- `call_records.py`: from a call's arguments to records, and the checks of keys and values.
- `session.py`: the offsets that this client has seen, one per table and partition; they only rise.
- `acknowledged_json.py`: what a session was acknowledged, as a document.
- `pages.py`: from the pages of a scan to what is on them.
- `scan_range.py`, `consistency.py`: from a level, a token and the session to the offsets that a read must contain.

Reading order: `results.py`, `pages.py`, `asked_index.py`, `table_options.py`, `asked_table.py`, `call_records.py`,
`session.py`, `acknowledged_json.py`, `consistency.py`.
"""
