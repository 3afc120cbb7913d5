"""Batches as Kafka records, and Kafka records as batches. Pure.

One operation is one Kafka record: key, value, and a header for what those two do not say. What foreign producers write
becomes puts and deletes.

Reading order: `header.py`, `encoding.py`, `assembly.py`.
"""
