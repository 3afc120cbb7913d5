"""Upkeep of sealed segments: retention, trimming, compaction.

Plans are pure (, `compaction.py`); carrying them out is a file each (`trim.py`, `compactor.py`). A
segment is rewritten or removed whole or not at all. Offsets never change, and nothing goes below what a verified
snapshot covers (I11).

Reading order:, `trim.py`, `compaction.py`, `compactor.py`.
"""
