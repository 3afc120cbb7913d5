"""Commands that run Spark: bulk builds, repush, export; and the audit of exports, which runs none.

Reading order: `spark_access.py`, `bulk.py`, `built.py`, `export_file.py` (of rows, without Spark), `pipeline.py`,
`export_audit.py`.
"""
