"""From a batch to Kafka records. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from log_tier.kafka.records.header import HEADER_BYTES, pack_header, pack_plain_headers
from log_tier.model.batch import Columns
from log_tier.model.errors import LimitExceeded
from log_tier.model.record import (
    CONDITION_SHIFT,
    EXPIRY_SHIFT,
    GROUPED,
    OPERATION_MASK,
    Condition,
    Expiry,
    Operation,
)

__all__ = ["Outgoing", "RecordSet", "cut_sets"]

# Bytes that a record takes in Kafka in addition to key and value: our header with both optional parts, lengths, deltas
# and the header's name as varints. librdkafka reckons with less than this, so a set that fits here fits there.
_OVERHEAD: Final = HEADER_BYTES + 16 + 48

_VALUELESS: Final = frozenset({int(Operation.DELETE), int(Operation.NOOP)})

Outgoing = tuple[bytes | None, bytes | None, bytes]
"""A Kafka record that is not sent yet: key, value, header. A plain tuple, as there are half a million a second."""


@dataclass(frozen=True, slots=True)
class RecordSet:
    """Records that must lie together: a batch, or as much of it as fits."""

    columns: Columns
    part: slice
    producer_id: int
    sequence: int
    """The sequence of the batch's first record."""
    size: int
    """Bytes at most, in a record batch of Kafka's."""

    @property
    def count(self) -> int:
        """The number of records in the set."""
        return int(self.part.stop - self.part.start)

    def records(self) -> Sequence[Outgoing]:
        """The records, with their headers. About 0.16 µs each for plain puts, 1 µs for others."""
        columns, part, count, producer_id = self.columns, self.part, self.count, self.producer_id
        keys, values = columns.keys[part], columns.values[part]
        first = self.sequence + part.start
        if columns.attributes is None:
            return list(zip(keys, values, pack_plain_headers(count, producer_id, first), strict=True))
        records: list[Outgoing] = []
        versions, expiries, attributes = columns.versions, columns.expiries, columns.attributes[part]
        following = (*attributes[1:], 0)
        for at, (key, value, attribute, after) in enumerate(zip(keys, values, attributes, following, strict=True)):
            place = part.start + at
            has_version = attribute >> CONDITION_SHIFT & 3 == Condition.VERSION
            has_expiry = attribute >> EXPIRY_SHIFT & 3 in (Expiry.TTL, Expiry.AT)
            header = pack_header(
                attribute,
                at,
                count - 1 - at,
                producer_id,
                first + at,
                open_group=bool(after & GROUPED),
                version=versions[place] if has_version and versions is not None else None,
                expiry=expiries[place] if has_expiry and expiries is not None else None,
            )
            is_bare = attribute & OPERATION_MASK in _VALUELESS and not value
            records.append((key or None, None if is_bare else value, header))
        return records


def cut_sets(columns: Columns, *, producer_id: int, sequence: int, size_max: int) -> Iterator[RecordSet]:
    """A batch as sets of at most `size_max` bytes; one, if it fits. An atomic group is never cut.

    Raises `LimitExceeded` where one record, or one group, is larger.
    """
    keys, values, attributes = columns.keys, columns.values, columns.attributes
    total = sum(map(len, keys)) + sum(map(len, values)) + len(keys) * _OVERHEAD
    if total <= size_max:
        yield RecordSet(columns, slice(0, len(keys)), producer_id, sequence, total)
        return
    start = group = size = group_size = 0
    for at, (key, value) in enumerate(zip(keys, values, strict=True)):
        cost = len(key) + len(value) + _OVERHEAD
        if attributes is None or not attributes[at] & GROUPED:
            group, group_size = at, 0
        group_size += cost
        if group_size > size_max:
            raise LimitExceeded(
                f"a record, or an atomic group, of {group_size} bytes does not fit in the topic's max.message.bytes, "
                f"which leaves {size_max} for records: raise that setting of the topic, or write less at once",
                limit=size_max,
                size=group_size,
            )
        size += cost
        if size > size_max:
            yield RecordSet(columns, slice(start, group), producer_id, sequence, size - group_size)
            start, size = group, group_size
    yield RecordSet(columns, slice(start, len(keys)), producer_id, sequence, size)
