"""What a job asks for, in the words of its options, and where that is.

`options.py` parses what a user wrote. `columns.py` and `key_ranges.py` say which columns and keys a read covers,
`catalog_tables.py` how Spark SQL passes options on. `table_place.py` finds the table: its partitions, its log, its
snapshots and the nodes that hold it. `steps.py` runs what is asynchronous inside of a Spark task. All but
`table_place.py` and `steps.py` are pure.

Reading order: `options.py`, `key_ranges.py`, `columns.py`, `catalog_tables.py`, `table_place.py`, `steps.py`.
"""
