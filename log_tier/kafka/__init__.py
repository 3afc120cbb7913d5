"""The Kafka engine: the log of a database that has outgrown one machine, on a cluster that others run already.

    append   batch ──encoding──▶ Kafka records ──sender──▶ one record batch of Kafka's, acks=all ──▶ offset
    read     Kafka records ──fetcher──▶ record filter, assembly ──▶ stored batches, as every engine gives them

**What it promises.** What `log_tier.model.log` says, with these words for Kafka: an append returns when all in-sync
replicas have it (`acks=all`; how much that is worth, the topic's settings decide: `durability` warns). A batch lies at
consecutive offsets. What is read is what was written, and what **others** wrote: a plain Kafka producer's record with a
key is a put, one without a value is a delete, and one that no table can hold is void, on every replica alike.

**Invariants.**

- *One operation, one Kafka record.* Its key is the key, its value the value; null deletes. Anything more (operation,
  condition, expiry, producer, sequence, place in its batch) is in one binary header, `duramen` (`header`). So `kcat`
  reads a table, and writes to one.
- *One batch, one record batch of Kafka's.* Kafka writes those whole or not at all, and nobody's records come between.
  librdkafka sends whenever it likes, unless it lingers; so the sender lets it linger for ever, hands over one round's
  batches, and then flushes: a group commit. Of each partition one round is under way, never two. The offsets of a
  batch's first and last record show whether Kafka kept the batch together; if not, the append is `WriteUnknown`, and
  its retry is recognised by the fold.
- *What a reader makes of the records is a function of the records alone*, not of how a fetch cut them (I4): `assembly`
  is pure, and gives a set only when it is whole.
- *The topic's UUID is the log's identity.* A topic that was deleted, or deleted and made again, is noticed (`topics`
  looks every second) and refused with `TableNotFound`; offsets that went backwards (an unclean election) with
  `LogDamaged`.

**What it deliberately does not do.** No transactions, no consumer groups, no committed offsets: a position is in the
token or in the index. No compaction: Kafka's cleaner looks at keys and would drop what conditions, updates and retries
need; a log is bounded by snapshots and `trim` (`compact` says so). It never deletes or trims a topic that it adopted.

**Reading order**: `records/` (pure), `cluster/` (addresses, topics, failures), `writing/`, `reading/`, and `engine.py`,
which puts them together.
"""

from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.kafka.engine import KafkaLog

__all__ = ["KafkaAddress", "KafkaLog"]
