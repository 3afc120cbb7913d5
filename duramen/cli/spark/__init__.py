"""Commands that run Spark: bulk builds, repush, export.

Reading order: `spark_access.py`, `bulk.py`, `built.py`, `pipeline.py`.
"""
