"""Commands that run Spark: bulk builds, repush, export.

Reading order: `bulk.py`, `built.py`, `pipeline.py`.
"""
