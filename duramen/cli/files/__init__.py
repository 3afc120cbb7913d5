"""Commands on the files of a data folder, without a server: `log dump`, `log verify`. They change nothing.

Reading order: `stored_batches.py`, `dump.py`, `verify.py`, `app.py`.
"""
