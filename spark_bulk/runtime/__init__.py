"""What driver and executors share: placement of rows, tasks of partitions, waiting, failures, what must be installed.

Reading order: `requirements.py`, `spark_failures.py`, `waiting.py`, `placing.py`, `work_folder.py`,
`partition_tasks.py`.
"""
