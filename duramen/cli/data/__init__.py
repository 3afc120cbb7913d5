"""Commands on tables and their data.

Reading order: `tables.py`, `records.py`, `streams.py`, `load.py`, `progress_bar.py`, `audit.py`, `audit_notes.py`.
"""
