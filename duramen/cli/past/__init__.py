"""Commands on what keys had before, in tables that keep a history.

Reading order: `history.py`, `diff.py`.
"""
