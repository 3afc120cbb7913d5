"""Searches of tables of rows, in their text indexes."""
