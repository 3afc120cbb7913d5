"""Segments: the files that hold a partition's batches, and the ways to read them.

A segment is stored batches end to end in one file, with a sparse index in a second file that is never trusted and can
always be rebuilt. The newest batches are also kept in memory (`tail_cache.py`), so a follower that keeps up never
touches the disk. `partition_log.py` is the writing half of a partition, `reader.py` the reading half; `cold_reader.py`
reads old data in a thread that may block.

Reading order: `sparse_index.py`, `segment.py`, `sparse_index_writer.py`, `tail_cache.py`, `open_files.py`,
`settling.py`, `log_resources.py` (what all partitions share), `growing_file.py` (the newest segment's),
`partition_state.py`, `staged.py`, `partition_log.py`, `reader.py`, `cold_reader.py`, `memory_blocks.py`,
`inspection.py` (reading files from outside, for an operator).
"""
