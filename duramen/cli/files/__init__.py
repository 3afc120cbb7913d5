"""Commands on the files of a data folder, without a server: `log dump` and `log verify`, which change nothing, and
`log repair`.

Reading order: `stored_batches.py`, `stored_keys.py`, `dump.py`, `verify.py`, `repair.py`, `app.py`.
"""
