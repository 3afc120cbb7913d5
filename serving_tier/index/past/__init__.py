"""The past of a table that keeps a history, in an index's file: what `serving_tier.fold.past` decides, written and
read.

It is written in the transaction that changes the keys themselves, so file, offset and past never differ. Its rows are
drawn in `serving_tier.index.lmdb.format`. A read of the present looks at none of them.

Reading order: `past_rows.py`, `log_times.py`, `past_writing.py`, `past_reading.py`, `past_keys.py`.
What a page of them is, is in `serving_tier.index.past_pages`.
"""
