"""Reads of a log: each change once, in order, without the records that changed nothing.

`feed.py` reads batches and asks a replica for the verdicts; `changes.py` makes rows of both (pure). A stream's position
is in Spark's checkpoint alone (`positions.py`, pure). `log_reader.py` is what Spark calls.

Reading order: `changes.py`, `positions.py`, `feed.py`, `log_reader.py`.
"""
