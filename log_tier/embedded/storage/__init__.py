"""The embedded log's disk: the seam to it, every file name, and the small files next to the segments.

Everything the engine does to files goes through the two protocols of `disk.py`, so a test can replace the disk with one
that loses what was not synced. `names.py` alone builds and parses file names. `documents.py` writes small JSON files
with a checksum; `checkpoint.py` is the lower bound of what a partition is known to hold.

Reading order: `disk.py`, `names.py`, `documents.py`, `checkpoint.py`, `settings.py`, `refusal.py`.
"""
