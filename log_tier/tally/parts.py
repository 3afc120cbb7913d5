"""Headers to be counted, of batches whose cut is not the producer's. Pure.

Every reader of Kafka puts the records of other producers together as its fetches bring them. So their batches have no
checksum that is equal at two readers, and a **record** adds to the tally what a batch adds otherwise:

    record        → attribute × 2^48 + key length × 2^32 + CRC-32C of key and value, times (2 × offset + 1)
    void record   → its attribute alone, since its value is a reason in words
    no record     → 1 times (2 × offset + 1)

A run of offsets is passed on as the header of a batch that adds their sum: the factor of a batch is odd, so it has an
inverse modulo 2^64. Of a set of ours whose beginning is not in the batch, offsets are counted and nothing is added: the
checksum is with its first offset.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import starmap
from operator import add, mul
from typing import Final

import google_crc32c

from log_tier.model.batch import Batch
from log_tier.model.batch_header import REST_OF_A_SET, RUN_OF_A_FETCH, BatchHeader
from log_tier.model.identifiers import Offset
from log_tier.model.record import OPERATION_MASK, PLAIN_PUT, Operation
from log_tier.tally.period import CHECKSUM_MASK

__all__ = ["counted_parts", "is_counted_whole"]

_VOID: Final = int(Operation.VOID)
_crc = google_crc32c.value


def is_counted_whole(header: BatchHeader) -> bool:
    """Does the batch count with its stamp's checksum, as a producer's does?"""
    return header.unsynced < REST_OF_A_SET


def counted_parts(batch: Batch, ends: Iterable[Offset]) -> list[BatchHeader]:
    """The headers with which a stored batch is counted: one, or, where the fetch decided its cut, one up to each of
    `ends` inside of it and one for the rest. Some 0.3 µs a record, and 3 µs a part.
    """
    header = batch.header
    if header.unsynced < REST_OF_A_SET:
        return [header]
    if header.unsynced == REST_OF_A_SET:
        return [header._replace(stamp_checksum=0)]
    assert header.unsynced == RUN_OF_A_FETCH, f"{header} is cut in a way that nobody knows"
    weights, offsets = _weights(batch), batch.offsets()
    parts: list[BatchHeader] = []
    first = header.base_offset
    for end in sorted({end for end in ends if first <= end < header.last_offset} | {header.last_offset}):
        if weights:
            begin, behind = bisect_left(offsets, first), bisect_left(offsets, end + 1)
            total = sum(map(mul, weights[begin:behind], range(2 * first + 1, 2 * end + 2, 2)))
        else:
            total = (end + 1) ** 2 - first**2
        stamp = total * pow(2 * first + 1, -1, CHECKSUM_MASK + 1) & CHECKSUM_MASK
        parts.append(header._replace(base_offset=first, span=end - first + 1, stamp_checksum=stamp))
        first = Offset(end + 1)
    return parts


def _weights(batch: Batch) -> list[int]:
    columns = batch.columns
    crcs = map(_crc, map(add, columns.keys, columns.values))
    if columns.attributes is None:
        return [crc + (len(key) << 32) + (PLAIN_PUT << 48) for crc, key in zip(crcs, columns.keys, strict=True)]
    return list(starmap(_weight, zip(columns.attributes, columns.keys, crcs, strict=True)))


def _weight(attribute: int, key: bytes, crc: int) -> int:
    if attribute & OPERATION_MASK == _VOID:
        return _VOID << 48
    return crc + (len(key) << 32) + (attribute << 48)
