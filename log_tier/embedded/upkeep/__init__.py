"""Upkeep of sealed segments: retention, trimming, compaction.

`compaction.py` decides which records a compaction drops, and is pure; `compactor.py` carries it out. `trim.py` removes
the oldest segments; which offset a table's retention permits is decided in `log_tier/model/retention.py`. A segment is
rewritten or removed whole or not at all. Offsets never change, and only records that a verified snapshot covers are
removed (I11).

Reading order: `trim.py`, `compaction.py`, `compactor.py`.
"""
