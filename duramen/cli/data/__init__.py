"""Commands on tables and their data.

Reading order: `tables.py`, `definition_text.py`, `alter.py`, `indexes.py`, `record_text.py` (bytes, or JSON where a
table has a definition), `records.py`, `streams.py`, `find.py`, `load.py`, `progress_bar.py`, `audit.py`,
`audit_notes.py`.
"""
