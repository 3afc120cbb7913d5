"""A partition's log as the tests need it: records in, stored batches out, each stamped with its place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.identifiers import Offset, Partition, table_id_from_bytes
from log_tier.model.record import PLAIN_PUT, Condition, Expiry, Operation, attribute_of

TABLE = table_id_from_bytes(bytes(range(16)))
PARTITION = Partition(3)


@dataclass(frozen=True)
class Said:
    """One record, as a client says it."""

    operation: Operation
    key: bytes
    value: bytes = b""
    condition: Condition = Condition.NONE
    version: int = 0
    expiry: Expiry = Expiry.NONE
    expiry_ms: int = 0
    grouped: bool = False

    @property
    def attribute(self) -> int:
        return attribute_of(self.operation, condition=self.condition, expiry=self.expiry, grouped=self.grouped)


def put(key: bytes, value: bytes = b"", **how: object) -> Said:
    return replace(Said(Operation.PUT, key, value), **how)  # type: ignore[arg-type]


def delete(key: bytes, **how: object) -> Said:
    return replace(Said(Operation.DELETE, key), **how)  # type: ignore[arg-type]


def add(key: bytes, value: bytes, **how: object) -> Said:
    return replace(Said(Operation.ADD, key, value), **how)  # type: ignore[arg-type]


def noop() -> Said:
    return Said(Operation.NOOP, b"")


def columns_of(records: list[Said]) -> Columns:
    """The columns, the optional ones only where a record needs them: as a client encodes."""
    attributes = [record.attribute for record in records]
    return Columns(
        [record.key for record in records],
        [record.value for record in records],
        attributes=None if set(attributes) <= {PLAIN_PUT} else attributes,
        versions=[record.version for record in records]
        if any(record.condition is Condition.VERSION for record in records)
        else None,
        expiries=[record.expiry_ms for record in records]
        if any(record.expiry in (Expiry.TTL, Expiry.AT) for record in records)
        else None,
    )


class StoredLog:
    """Stamps batches one after the other; `batches` holds what was stored."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.next_offset = 0
        self.time_ms = 1_000_000

    def append(
        self,
        *records: Said,
        producer_id: int = 0,
        sequence: int = 0,
        later_ms: int = 0,
        compress: bool = False,
        columns: Columns | None = None,
        span: int | None = None,
    ) -> bytes:
        """Store a batch; return it."""
        self.time_ms += later_ms
        batch = stamp_batch(
            encode_batch(
                columns_of(list(records)) if columns is None else columns,
                producer_id=producer_id,
                sequence=sequence,
                compress=compress,
                span=span,
            ),
            base_offset=Offset(self.next_offset),
            timestamp_ms=self.time_ms,
            unsynced=0,
        )
        self.next_offset += int.from_bytes(batch[60:64], "little")
        self.batches.append(batch)
        return batch
