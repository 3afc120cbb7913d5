"""Gathering: calls of concurrent callers leave together, as one batch per partition or one read request.

A caller that is alone is not delayed: calls gather only while a request is under way. A batch is encoded once, with a
producer id and a sequence, so one whose reply was lost is sent again with the same bytes and takes effect once.

Reading order: `session.py`, `pending_calls.py`, `batch_builder.py`, `writes.py`, `reads.py`.
"""
