"""Writes: rows become batches that count once, however often Spark runs the task.

`encoded_rows.py` makes stored keys and values of the columns of a table of rows (pure). `drafted_rows.py` checks a
task's rows, places them in partitions and drafts records (pure). `identities.py` draws the
producer id and the sequences of a task from its job (pure), and `appender.py` appends with them. `writer.py` is what
Spark calls.

Reading order: `identities.py`, `encoded_rows.py`, `drafted_rows.py`, `appender.py`, `writer.py`.
"""
