"""Writes of many rows that belong together: all or none of them, or a stream that resumes.

Both are those of `duramen.client.atomic` and `duramen.client.table_writer`, for rows: each row is encoded by its
table's codec before it leaves, and one that does not fit is named.

Reading order: `atomic_rows.py`, `row_writer.py`.
"""
