"""Writing to Kafka: each batch lies whole in one of Kafka's record batches, so nobody can come between its records.

Reading order: `send_queue.py` (what waits and what is under way), `sender.py` (rounds of it), `batch_cuts.py` (from
batches to what is queued).
"""
