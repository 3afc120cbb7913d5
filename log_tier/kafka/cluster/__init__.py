"""What the Kafka engine knows of the cluster: addresses, topics, their identity and settings, librdkafka's errors.

A topic's UUID is the log's identity, so a topic that was deleted and created again is noticed and never served as the
old one. `failures.py` alone knows librdkafka's error codes.

Reading order: `kafka_address.py`, `failures.py`, `client_log_filter.py`, `cluster_access.py`, `cluster_client.py`,
`durability.py`, `known_topic.py`, `lost_topics.py`, `topic_watcher.py`, `topics.py`.
"""
