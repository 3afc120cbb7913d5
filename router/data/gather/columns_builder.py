"""The records of a batch in the making, column by column. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from log_tier.model.batch import Columns, SealedBatch, seal_batch
from log_tier.model.errors import InvalidRequest
from log_tier.model.record import (
    PLAIN_PUT,
    VALUE_BYTES_MAX,
    Condition,
    Expiry,
    Operation,
    attribute_of,
    check_key,
    value_refusal,
)

__all__ = ["ColumnsBuilder", "joined", "one_record"]


@dataclass(slots=True)
class ColumnsBuilder:
    """Lists that grow. A column that plain puts do not have is None until a record needs it.

    Invariant: every column that is present has one entry per key.
    """

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    attributes: list[int] | None = None
    versions: list[int] | None = None
    expiries: list[int] | None = None

    def put(self, key: bytes, value: bytes) -> None:
        """Add a plain put. O(1)."""
        self.keys.append(key)
        self.values.append(value)
        if self.attributes is not None:
            self._fill(1)

    def put_all(self, keys: Sequence[bytes], values: Sequence[bytes]) -> int:
        """Add plain puts; the first one's place in the batch. O(keys)."""
        start = len(self.keys)
        self.keys += keys
        self.values += values
        if self.attributes is not None:
            self._fill(len(keys))
        return start

    def _fill(self, count: int) -> None:
        """The entries of plain puts in the columns that other records have brought."""
        if self.attributes is not None:
            self.attributes += [PLAIN_PUT] * count
        if self.versions is not None:
            self.versions += [0] * count
        if self.expiries is not None:
            self.expiries += [0] * count

    def add(self, records: Columns) -> int:
        """Add records of any kind; the first one's place in the batch. O(records)."""
        count = len(records.keys)
        start = self.put_all(records.keys, records.values)
        if records.attributes is not None:
            self.attributes = _with_tail(self.attributes, records.attributes, start, count, PLAIN_PUT)
        if records.versions is not None:
            self.versions = _with_tail(self.versions, records.versions, start, count, 0)
        if records.expiries is not None:
            self.expiries = _with_tail(self.expiries, records.expiries, start, count, 0)
        return start

    def encode(self, *, producer_id: int, sequence: int, compress: bool) -> SealedBatch:
        """The bytes of a batch of these records. Raises what `seal_batch` does."""
        return seal_batch(self.columns(), producer_id=producer_id, sequence=sequence, compress=compress)

    def columns(self) -> Columns:
        """The records as they are now; the lists are the builder's own."""
        return Columns(self.keys, self.values, self.attributes, self.versions, self.expiries)


def one_record(
    operation: Operation,
    key: bytes,
    value: bytes,
    *,
    condition: Condition = Condition.NONE,
    version: int = 0,
    ttl_ms: int = 0,
    keep_ttl: bool = False,
    grouped: bool = False,
) -> Columns:
    """One record as columns of length one, with those columns only that it needs; `ttl_ms` 0: without.

    Raises `InvalidKey`, `InvalidValue`, `InvalidRequest`.
    """
    check_key(key)
    if len(value) > VALUE_BYTES_MAX:
        raise value_refusal(value)
    if ttl_ms and keep_ttl:
        raise InvalidRequest("give a TTL or keep_ttl, not both")
    expiry = Expiry.TTL if ttl_ms else Expiry.KEEP if keep_ttl else Expiry.NONE
    attribute = attribute_of(operation, condition=condition, expiry=expiry, grouped=grouped)
    return Columns(
        (key,),
        (value,),
        None if attribute == PLAIN_PUT else (attribute,),
        (version,) if condition is Condition.VERSION else None,
        (ttl_ms,) if ttl_ms else None,
    )


def joined(records: Iterable[Columns]) -> Columns:
    """Several records as one set of columns, with those columns only that some record needs."""
    builder = ColumnsBuilder()
    for record in records:
        builder.add(record)
    return builder.columns()


def _with_tail(column: list[int] | None, tail: Sequence[int], start: int, count: int, default: int) -> list[int]:
    """The column with its last `count` entries, which may be filled already, replaced by `tail`."""
    if column is None:
        column = [default] * (start + count)
    column[start:] = tail
    return column
