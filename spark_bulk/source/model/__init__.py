"""What a job asks for, in the words of its options, and where that is.

`options.py` parses what a user wrote, `cluster_login.py` what of it secures and proves calls. `columns.py` and
`key_ranges.py` say which columns and keys a read covers, `row_columns.py` and `row_conditions.py` the same for tables
of rows, `catalog_tables.py` how Spark SQL passes options on.
`table_place.py` finds the table: its partitions, its log, its snapshots and the nodes that hold it. `steps.py` runs
what is asynchronous inside of a Spark task. `key_ranges.py`, `columns.py`, `row_columns.py`, `row_conditions.py` and
`catalog_tables.py` are pure.

Reading order: `cluster_login.py`, `options.py`, `key_ranges.py`, `columns.py`, `row_columns.py`, `row_conditions.py`,
`catalog_tables.py`, `table_place.py`, `steps.py`.
"""
