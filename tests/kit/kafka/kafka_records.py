"""Kafka records for tests: what the encoding makes of batches, what others write, and a message that holds either."""

from __future__ import annotations

from dataclasses import dataclass

from log_tier.kafka.records.assembly import Assembly, KafkaRecord
from log_tier.kafka.records.encoding import cut_sets
from log_tier.kafka.records.header import HEADER_NAME, pack_header, read_header
from log_tier.model.batch import Columns, decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.identifiers import Offset
from log_tier.model.record import Operation

SIZE_MAX = 1 << 20


@dataclass
class Sent:
    """A record in a partition, as Kafka keeps it."""

    key: bytes | None
    value: bytes | None
    header: bytes | None
    timestamp_ms: int = 1000
    offset: int = -1

    def read(self) -> KafkaRecord:
        header = read_header(self.header) if self.header is not None else None
        return KafkaRecord(
            Offset(self.offset), self.timestamp_ms, self.key, self.value, header, self.header is not None and not header
        )


class Message:
    """As librdkafka's Python face gives a record."""

    def __init__(self, sent: Sent) -> None:
        self._sent = sent

    def offset(self) -> int:
        return self._sent.offset

    def key(self) -> bytes | None:
        return self._sent.key

    def value(self) -> bytes | None:
        return self._sent.value

    def timestamp(self) -> tuple[int, int]:
        return 2, self._sent.timestamp_ms

    def headers(self) -> list[tuple[str, bytes]] | None:
        return None if self._sent.header is None else [("other", b"x"), (HEADER_NAME, self._sent.header)]


def sent_batch(columns: Columns, *, producer_id: int = 0, sequence: int = 0, timestamp_ms: int = 1000) -> list[Sent]:
    """A batch's records, one set."""
    (records,) = cut_sets(columns, producer_id=producer_id, sequence=sequence, size_max=SIZE_MAX)
    return [Sent(key, value, header, timestamp_ms) for key, value, header in records.records()]


def foreign(key: bytes | None, value: bytes | None, timestamp_ms: int = 1000) -> Sent:
    """What a plain Kafka producer writes."""
    return Sent(key, value, None, timestamp_ms)


def placed(*parts: list[Sent] | int, start: int = 0) -> list[Sent]:
    """One after the other from `start` on; a number is a gap of so many offsets."""
    found: list[Sent] = []
    for part in parts:
        if isinstance(part, int):
            start += part
            continue
        for sent in part:
            found.append(Sent(sent.key, sent.value, sent.header, sent.timestamp_ms, start))
            start += 1
    return found


def records_of(batches: list[bytes]) -> list[tuple[object, ...]]:
    """Stored batches record by record: (offset, key, value, attribute, version, expiry, producer, sequence)."""
    found: list[tuple[object, ...]] = []
    for data in batches:
        for stored in split_batches(data):
            batch = decode_batch(stored)
            header, columns = batch.header, batch.columns
            for at, offset in enumerate(batch.offsets()):
                found.append(
                    (
                        offset,
                        columns.keys[at],
                        columns.values[at],
                        1 if columns.attributes is None else columns.attributes[at],
                        0 if columns.versions is None else columns.versions[at],
                        0 if columns.expiries is None else columns.expiries[at],
                        header.producer_id,
                        header.sequence + at if header.producer_id else 0,
                    )
                )
    return found


def forged(**fields: int) -> bytes:
    """A header with these fields, and sensible others."""
    values = {"attribute": 1, "before": 0, "after": 0, "producer_id": 0, "sequence": 0} | fields
    return pack_header(
        values["attribute"], values["before"], values["after"], values["producer_id"], values["sequence"]
    )


def assembled(records: list[Sent], start: int = 0) -> list[bytes]:
    """Their batches, record by record, all at once."""
    return Assembly(Offset(start)).take([sent.read() for sent in records])


def what_folds_see(batches: list[bytes]) -> list[tuple[object, ...]]:
    """Everything that a fold can see, whatever the batches: records, and the log time that each non-put sees."""
    found: list[tuple[object, ...]] = []
    for stored in batches:
        batch = decode_batch(stored)
        timeless = batch.columns.attributes is None or not batch.header.producer_id
        for record in records_of([stored]):
            needs_time = record[3] not in (1, int(Operation.VOID)) or not timeless
            found.append((*record, batch.header.timestamp_ms if needs_time else None))
    return found
