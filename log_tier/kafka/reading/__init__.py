"""Reading from Kafka: a few consumers that many followers share.

Reading order: `record_filter.py` (messages to batches), `partition_reader.py` (one follower), `shared_consumer.py` (one
consumer and its thread), `fetcher.py` (all of them), `denied_reads.py`
(the partitions that Kafka denies).
"""
