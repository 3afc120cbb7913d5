"""Commands on what keys had before, in tables that keep a history, and on tokens.

Reading order: `history.py`, `diff.py`, `token.py`.
"""
