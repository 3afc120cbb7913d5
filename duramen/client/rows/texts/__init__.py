"""Searches of tables of rows, in their text indexes: `row_searches.py`."""
