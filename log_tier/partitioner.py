"""Where a key lives.

    slot      = CRC16-XMODEM(tag or whole key) mod 16384        (the hash slot of Redis Cluster)
    partition = slot × partitions // 16384                      (contiguous slot ranges)

The tag is what stands between the first `{` and the first `}` after it, if that is not empty: `{user7}.cart` and
`{user7}.name` share a slot and so can share an atomic batch. The rule is Redis Cluster's own, so a cluster-aware Redis
client computes the same slot. `tests/log_tier/vectors/slots.json` holds vectors that every other implementation of this
function (Spark's column function among them) is checked with.
"""

from __future__ import annotations

from binascii import crc_hqx
from typing import Final

from log_tier.identifiers import Partition

__all__ = ["SLOTS", "partition_of", "slot_of", "slots_of_partition"]

SLOTS: Final = 16384
"""2^14: Redis Cluster's number, a multiple of every sensible partition count."""


def slot_of(key: bytes) -> int:
    """The hash slot of `key`, 0 to 16383. About 0.1 µs."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) & 16383


def partition_of(key: bytes, partitions: int) -> Partition:
    """The partition of `key` in a table of `partitions` partitions."""
    return Partition(slot_of(key) * partitions >> 14)


def slots_of_partition(partition: Partition, partitions: int) -> range:
    """The slots that partition holds: the ranges of all partitions, in order, tile 0..16383."""
    first = -(-partition * SLOTS // partitions)
    after = -(-(partition + 1) * SLOTS // partitions)
    return range(first, after)
