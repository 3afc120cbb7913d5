"""Opening a log after whatever happened: a clean stop, a crash, a loss of power, damage.

The folder is checked first (`data_folder.py`), then the journal is replayed, then each partition's newest segment is
walked to its end (`segment_end.py`), of many partitions by several threads (`many_looks.py`). A tear at the very end of
the newest segment is cut, because it cannot have been acknowledged. Anything else that cannot be read is damage: its
place is named, and nothing is cut (I8).

After a clean close of many partitions a summary says what they hold (`log_summary.py`), and each is looked at when it
is first used.

Reading order: `data_folder.py`, `segment_end.py`, `open_partition.py`, `many_looks.py`, `log_summary.py`,
`open_topics.py`.
"""
