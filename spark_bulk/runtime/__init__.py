"""What driver and executors share: placement of rows, waiting, failures, and what must be installed.

Reading order: `requirements.py`, `failures.py`, `waiting.py`, `placing.py`.
"""
