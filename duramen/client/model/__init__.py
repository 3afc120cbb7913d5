"""What the client's parts speak in: arguments, results, levels of reading, and what a session has seen. No connection.

- `results.py`: what calls return.
- `table_options.py`: what a table is made with, whatever is in it.
- `call_records.py`: from a call's arguments to records, and the checks of keys and values.
- `session.py`: the offsets that this client has seen, one per table and partition; they only rise.
- `acknowledged_json.py`: what a session was acknowledged, as a document.
- `consistency.py`: from a level, a token and the session to the offsets that a read must contain.

Reading order: `results.py`, `table_options.py`, `call_records.py`, `session.py`, `acknowledged_json.py`,
`consistency.py`.
"""
