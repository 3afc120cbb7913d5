"""Commands that search in texts of rows: `search.py`."""
