"""What follows from a table's definition: the format in which it is written, and what its rows have alone. Pure.

A definition is written in the oldest format that says all of it (`definition_format.py`), since a process stops at one
that it does not know. A unique index gives a value to one row alone (`unique_values.py`), inside of a partition:
which definitions can promise that is decided when the table is made.
"""
