"""Reads of what a table had, as clients and endpoints ask for them: a state, and the requests that name it.

A state is an offset for each partition, as a token names it, or a time. What it means is decided where the index is:
`serving_tier.index.past`.

Reading order: `asked_past.py`, `past_requests.py`.
"""
