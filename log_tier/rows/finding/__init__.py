"""Finding rows by their fields: which index serves, and where in it they lie. Pure.

    conditions    tailnum = "N14228", dep_delay from 60 on     →  ranges of elements
    plan          the key, or one ordered index                →  a range of its entries, and what is left to look at

A condition is on one field: a value, or a range from its start (inclusive) to its end (exclusive), None for an open
one. What has no value (None) sorts first, so a range without a start has it; what is no number (NaN) sorts last, and is
in no range.

- Y1 The rows of a plan's range that pass its filter are those that meet all conditions, each of them once.
- Y2 A plan goes through no more of its index than the first fields that have one value, and one range behind them.
- Y3 An order that no index has is made by who asks, of what the conditions find; a find without conditions needs one.

Reading order: `found_range.py`, `conditions.py`, `condition_words.py`, `row_filter.py`, `row_sorter.py`,
`find_plan.py`, `find_planner.py`.
"""
