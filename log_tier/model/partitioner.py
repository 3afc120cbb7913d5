"""Where a key lives. A table has one of three partitioners, for good:

    "slot"      slot      = CRC16-XMODEM(tag or whole key) mod 16384        (the hash slot of Redis Cluster)
                partition = slot × partitions // 16384                      (contiguous slot ranges)

    "murmur2"   partition = (murmur2(whole key) & 0x7fffffff) mod partitions     (what Kafka's Java producer does)

    "fields:N"  the slot of the first N elements of a key of fields, tags unknown; its partition is found as by "slot"

The tag is the text between the first `{` and the first `}` after it, if that is not empty: `{user7}.cart` and
`{user7}.name` share a slot and so can share an atomic batch. The rule is Redis Cluster's own, so a cluster-aware Redis
client computes the same slot. `tests/log_tier/model/vectors/slots.json` holds vectors that every other implementation
of this function (Spark's column function among them) is checked with.

`"fields:2"` is for keys that `duramen.pack_key` makes: those that begin with the same two fields lie together. A key
that does not begin with so many elements is placed by all of its bytes. 1 to 32 fields.

`"murmur2"` is for tables over a topic that Kafka's own producers write, or read by its own consumers: a key is looked
up where they put it. It is the default partitioner of the Java client for records with a key (other clients have
others: librdkafka calls this one `murmur2_random`). It knows no tags. `vectors/murmur2.json` holds what the Java
implementation says.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable
from struct import Struct, unpack_from
from typing import Final

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Partition
from log_tier.model.leading_elements import elements_end, leading_elements

__all__ = [
    "FIELDS_MAX",
    "SLOTS",
    "Partitioner",
    "check_partitioner",
    "is_partitioner",
    "murmur2",
    "partition_function",
    "partition_of",
    "partition_of_range",
    "placed_together",
    "slot_of",
    "slots_of_partition",
]

Partitioner = str
"""`"slot"`, `"murmur2"` or `"fields:N"`; `check_partitioner` refuses what is none."""

FIELDS_MAX: Final = 32
"""How many fields of a key can decide its partition. More would be the whole key, near enough."""

_BY_FIELDS: Final = {f"fields:{count}": count for count in range(1, FIELDS_MAX + 1)}

SLOTS: Final = 16384
"""2^14: Redis Cluster's number, a multiple of every sensible partition count."""

# As a number: looking for `b"{"` costs three times as much.
_BRACE: Final = 0x7B

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF

# All whole words of a key in one call. Finding a ready format by its number of words is faster than naming it; keys
# that are longer than any table's are hashed as well, a little slower.
_WORDS: Final = tuple(Struct(f"<{words}I").unpack_from for words in range(257))


def slot_of(key: bytes) -> int:
    """The hash slot of `key`, 0 to 16383. About 0.1 µs."""
    if _BRACE in key:
        start = key.find(b"{")
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) & 16383


def murmur2(key: bytes) -> int:
    """MurmurHash2 of `key` as Kafka's Java client computes it, as an unsigned number of 32 bits.

    About 0.5 µs for 8 bytes, 1.2 µs for 24. Austin Appleby's function (2008), with Kafka's own seed.
    """
    size = len(key)
    hashed = _SEED ^ size
    words = size >> 2
    for word in _WORDS[words](key) if words < 257 else unpack_from(f"<{words}I", key):
        word = word * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER ^ (word ^ word >> 24) * _MULTIPLIER) & _MASK
    if size & 3:
        hashed = (hashed ^ int.from_bytes(key[size & -4 :], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def partition_of(key: bytes, partitions: int, partitioner: Partitioner = "slot") -> Partition:
    """The partition of `key` in a table of `partitions` partitions. For many keys of one: `partition_function`."""
    return partition_function(partitions, partitioner)(key)


def partition_function(partitions: int, partitioner: Partitioner = "slot") -> Callable[[bytes], Partition]:
    """`partition_of` for one table, a call less per key."""

    def by_slot(key: bytes) -> Partition:
        if _BRACE in key:
            return slot_of(key) * partitions >> 14  # type: ignore[return-value]  # a NewType's call is not free
        return (crc_hqx(key, 0) & 16383) * partitions >> 14  # type: ignore[return-value]

    def by_murmur2(key: bytes) -> Partition:
        return (murmur2(key) & 0x7FFFFFFF) % partitions  # type: ignore[return-value]

    if partitioner == "slot":
        return by_slot
    if partitioner == "murmur2":
        return by_murmur2
    fields = _BY_FIELDS[partitioner]

    def by_fields(key: bytes) -> Partition:
        return (crc_hqx(leading_elements(key, fields), 0) & 16383) * partitions >> 14  # type: ignore[return-value]

    return by_fields


def partition_of_range(
    start: bytes, end: bytes | None, partitions: int, partitioner: Partitioner = "slot"
) -> Partition | None:
    """The partition of all keys from `start` (inclusive) to `end` (exclusive), where the partitioner says that there is
    one: where they begin with the same N elements, of a table by `fields:N`. None: they may be anywhere. About 1 µs.
    """
    fields = _BY_FIELDS.get(partitioner)
    if fields is None or end is None or partitions == 1:
        return None
    common = start[: max(0, elements_end(start, fields))]
    # No element begins with FF. Behind a text it would make the 00 that ends it a byte of a longer text.
    return partition_of(common, partitions, partitioner) if common and end <= common + b"\xff" else None


def partition_of_prefix(prefix: bytes, partitions: int, partitioner: Partitioner = "slot") -> Partition | None:
    """The partition of all keys that begin with these elements, where there is one. None: they may be anywhere."""
    return partition_of_range(prefix, prefix + b"\xff", partitions, partitioner) if prefix else None


def is_partitioner(name: str) -> bool:
    """Does this process know a partitioner of that name?"""
    return name in ("slot", "murmur2") or name in _BY_FIELDS


def check_partitioner(name: str) -> Partitioner:
    """Return the partitioner of that name. Raises `InvalidRequest` where there is none."""
    if not isinstance(name, str) or not is_partitioner(name):
        raise InvalidRequest(
            f"a table's partitioner is slot, murmur2, or fields:N with N from 1 to {FIELDS_MAX}, not {name!r}"
        )
    return name


def placed_together(partitioner: Partitioner) -> str:
    """How keys of a table come into one partition, for the message about some that did not."""
    if partitioner == "slot":
        return "give its keys a common {tag}"
    if partitioner == "murmur2":
        return "the table's partitioner, murmur2, knows no tags: only a key's own bytes say where it lies"
    fields = _BY_FIELDS[partitioner]
    return f"the table's partitioner, {partitioner}, lays keys together that begin with the same {fields} fields"


def slots_of_partition(partition: Partition, partitions: int) -> range:
    """The slots that partition holds: the ranges of all partitions, in order, tile 0..16383."""
    first = -(-partition * SLOTS // partitions)
    after = -(-(partition + 1) * SLOTS // partitions)
    return range(first, after)
