"""Commands that run servers or look at them: `up`, `serve`, `health`, `check`, `log dump`.

Reading order: `up.py`, `serve.py`, `health.py`, `check.py`, `dump.py`.
"""
