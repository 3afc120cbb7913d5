"""Commands on tables and their data.

Reading order: `tables.py`, `definition_text.py` and `shown_definition.py` (a definition, typed and shown), `alter.py`,
`indexes.py`, `record_text.py` (bytes), `defined_text.py` (JSON, where a table has a definition), `table_text.py` (which
of them), `records.py`, `streams.py`, `find.py`, `load.py`, `progress_bar.py`, `audit.py`,
`audit_notes.py`.
"""
