"""From Kafka records to stored batches. Pure: the records, in the order of their offsets, are all that matters (I4).

    set of ours          → one batch, as it was appended
    run of foreign puts  → one batch (producer 0)
    foreign tombstone    → a delete
    what no table can hold, or an atomic group that is not whole → void records, with the reason as their value
    offsets without a record (Kafka's own markers, what its cleaner removed) → an empty shell that occupies them

A set is given out when its last record is there, so that no fetch can cut a batch: Kafka writes and fetches a set as a
whole. One that is followed by anything but its own next record will never be whole; that shows in the next record.

A batch has one timestamp, the largest of its records'. Foreign records are put together only where that changes
nothing: puts need no clock, and anything else shares a batch with records of its own time only. None is in a later
minute than the first one, so that each counts in the minute in which it would count alone (`log_tier.tally`).

`unsynced` of the stamp says what a tally has to know of a batch: that its cut depends on the fetch, or that it is not a
set from its first record on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from log_tier.kafka.records.header import HAS_EXPIRY, HAS_VERSION, OPEN_GROUP, PLAIN_SET, RecordHeader
from log_tier.model.batch import BATCH_RECORDS_MAX, Columns, encode_batch
from log_tier.model.batch_header import (
    BATCH_BYTES_MAX,
    NOWHERE,
    REST_OF_A_SET,
    RUN_OF_A_FETCH,
    Place,
    stamp_batch,
)
from log_tier.model.identifiers import Offset
from log_tier.model.record import (
    CONDITION_SHIFT,
    EXPIRY_SHIFT,
    GROUPED,
    KEY_BYTES_MAX,
    OPERATION_MASK,
    PLAIN_PUT,
    VALUE_BYTES_MAX,
    Condition,
    Expiry,
    Operation,
    unknown_attribute,
)
from log_tier.tally.period import MINUTE_MS

__all__ = ["Assembly", "KafkaRecord"]

# Foreign records are put together up to this many, or bytes: enough for the cost of a batch to disappear.
_RUN_RECORDS_MAX: Final = 4096
_RUN_BYTES_MAX: Final = 1 << 20

# What a batch holds in addition to keys and values, at most: its header, and 24 bytes of columns a record.
_BATCH_ROOM: Final = BATCH_BYTES_MAX - 4096
_COLUMN_BYTES: Final = 24

_DELETE: Final = int(Operation.DELETE)
_VOID: Final = int(Operation.VOID)
_KEYLESS: Final = frozenset({int(Operation.NOOP), int(Operation.BARRIER)})


class KafkaRecord(NamedTuple):
    """A record as Kafka gives it."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    header: RecordHeader | None = None
    """None: the record has no header of ours, so a foreign producer wrote it."""
    bad_header: bool = False
    """The record has a header of our name that does not parse as ours."""

    @property
    def size(self) -> int:
        """Bytes that it takes in a batch, at most."""
        return min(len(self.key or b""), KEY_BYTES_MAX) + min(len(self.value or b""), VALUE_BYTES_MAX) + _COLUMN_BYTES


class Assembly:
    """Takes one partition's records and gives stored batches.

    Invariant: the batches given out occupy every offset from the start to `next_offset`, which they do not.
    """

    def __init__(self, start: Offset, place: Place = NOWHERE) -> None:
        self.next_offset = start
        self._place = place
        self._start = start
        self._run: list[KafkaRecord] = []
        """Records of one set, or foreign ones, whose batch is not given out yet."""
        self._run_bytes = 0
        self._run_timeless = True
        """Foreign: nothing but puts, so that no record asks what time it is."""
        self._run_of_one_time = True
        """All its records have one timestamp."""

    def take(self, records: Sequence[KafkaRecord]) -> list[bytes]:
        """Take the next records, in order; give what is complete. A run of foreign records ends with the call."""
        given: list[bytes] = []
        for record in records:
            if self._run and not (_continues(self._run[-1], record) and self._fits(record)):
                given += self._give()
            self._run.append(record)
            self._run_bytes += record.size
            self._run_timeless &= record.value is not None
            self._run_of_one_time &= record.timestamp_ms == self._run[0].timestamp_ms
            if record.header is not None and not record.header.after:
                given += self._give()
        if self._run and self._run[-1].header is None:
            given += self._give()
        return given

    def take_plain_set(
        self, base: Offset, timestamp_ms: int, header: RecordHeader, keys: Sequence[bytes], values: Sequence[bytes]
    ) -> list[bytes]:
        """Take a whole set of plain puts column by column: what `take` makes of its records, at a third of the cost.

        `header`: the first record's. Raises `InvalidKey`, `InvalidValue` or `LimitExceeded` where it is not what it
        says, and takes nothing then: give the records to `take`.
        """
        batch = encode_batch(Columns(keys, values), producer_id=header.producer_id, sequence=header.sequence)
        given = self._give() if self._run else []
        given += self._shells(base)
        cut = REST_OF_A_SET if header.before else 0
        given.append(stamp_batch(batch, base_offset=base, timestamp_ms=timestamp_ms, unsynced=cut, place=self._place))
        self.next_offset = Offset(base + len(keys))
        return given

    def end(self, next_offset: Offset) -> list[bytes]:
        """The partition ends before `next_offset`: occupy what holds no record, unless a set waits for its rest."""
        return [] if self._run else self._shells(next_offset)

    def _fits(self, record: KafkaRecord) -> bool:
        """Whether it may share a batch with the run, as far as size and time go."""
        run = self._run
        if record.header is not None:
            return len(run) < BATCH_RECORDS_MAX and self._run_bytes + record.size <= _BATCH_ROOM
        if len(run) >= _RUN_RECORDS_MAX or self._run_bytes >= _RUN_BYTES_MAX:
            return False
        if record.timestamp_ms // MINUTE_MS > run[0].timestamp_ms // MINUTE_MS:
            return False
        if self._run_timeless and record.value is not None:
            return True
        return self._run_of_one_time and record.timestamp_ms == run[0].timestamp_ms

    def _shells(self, until: Offset) -> list[bytes]:
        given: list[bytes] = []
        while self.next_offset < until:
            span = min(until - self.next_offset, BATCH_RECORDS_MAX)
            shell = encode_batch(Columns([], []), span=span)
            base = self.next_offset
            given.append(
                stamp_batch(shell, base_offset=base, timestamp_ms=0, unsynced=RUN_OF_A_FETCH, place=self._place)
            )
            self.next_offset = Offset(self.next_offset + span)
        return given

    def _give(self) -> list[bytes]:
        run, self._run, self._run_bytes = self._run, [], 0
        self._run_timeless = self._run_of_one_time = True
        given = self._shells(run[0].offset)
        given.append(_batch_of(run, self._place, from_the_start=run[0].offset == self._start))
        self.next_offset = Offset(run[-1].offset + 1)
        return given


def _continues(last: KafkaRecord, record: KafkaRecord) -> bool:
    """Whether `record` goes on with what `last` belongs to: a set, or a run of foreign records."""
    if record.offset != last.offset + 1:
        return False
    previous, header = last.header, record.header
    if previous is None or header is None:
        return previous is header
    return (
        header.before == previous.before + 1
        and header.after == previous.after - 1
        and header.producer_id == previous.producer_id
        and header.sequence == previous.sequence + 1
    )


def _batch_of(run: list[KafkaRecord], place: Place, *, from_the_start: bool) -> bytes:
    keys: list[bytes] = []
    values: list[bytes] = []
    attributes: list[int] = []
    for record, reason in zip(run, _reasons(run, from_the_start=from_the_start), strict=True):
        keys.append((record.key or b"")[:KEY_BYTES_MAX])
        values.append(record.value or b"" if not reason else reason.encode())
        attributes.append(_VOID if reason else _attribute_of(record))
    headers = [record.header for record in run]
    columns = Columns(keys, values)
    if any(attribute != PLAIN_PUT for attribute in attributes) or (headers[0] and not headers[0].flags & PLAIN_SET):
        columns.attributes = attributes
        if any(each >> CONDITION_SHIFT & 3 == Condition.VERSION for each in attributes):
            columns.versions = [header.version if header else 0 for header in headers]
        if any(each >> EXPIRY_SHIFT & 3 in (Expiry.TTL, Expiry.AT) for each in attributes):
            columns.expiries = [header.expiry if header else 0 for header in headers]
    # What is void must not use up its sequences: its writer may send it again.
    header = headers[0] if _VOID not in attributes else None
    batch = encode_batch(
        columns,
        producer_id=header.producer_id if header else 0,
        sequence=header.sequence if header and header.producer_id else 0,
    )
    timestamp_ms = max(record.timestamp_ms for record in run)
    cut = _cut_of(run[0])
    return stamp_batch(batch, base_offset=run[0].offset, timestamp_ms=timestamp_ms, unsynced=cut, place=place)


def _cut_of(first: KafkaRecord) -> int:
    """What the stamp says of the cut of a batch that begins with this record."""
    if first.header is None:
        return RUN_OF_A_FETCH
    # What a group's records are without its first one depends on where the reader began.
    return REST_OF_A_SET if first.header.before or _is_grouped(first) else 0


def _attribute_of(record: KafkaRecord) -> int:
    if record.header is not None:
        return record.header.attribute
    return PLAIN_PUT if record.value is not None else _DELETE


def _reasons(run: list[KafkaRecord], *, from_the_start: bool) -> Iterator[str]:
    """For each record why it is void; empty where it is not. A group that is not whole, or not well, is void whole."""
    at = 0
    while at < len(run):
        end = at + 1
        while end < len(run) and _is_grouped(run[end]):
            end += 1
        group = run[at:end]
        reason = next(filter(None, map(_why_void, group)), "")
        last = group[-1].header
        begun = _is_grouped(group[0]) and not (at == 0 and from_the_start)
        if not reason and (begun or (last is not None and last.flags & OPEN_GROUP)):
            reason = "a part of its atomic group is missing"
        yield from [reason] * len(group)
        at = end


def _is_grouped(record: KafkaRecord) -> bool:
    return record.header is not None and bool(record.header.attribute & GROUPED)


def _why_void(record: KafkaRecord) -> str:
    """Why no table can hold this record; empty where one can."""
    if record.bad_header:
        return "its header `duramen` is not one that Duramen writes"
    key, value, header = record.key, record.value, record.header
    attribute = _attribute_of(record)
    if header is not None:
        wants_version = attribute >> CONDITION_SHIFT & 3 == Condition.VERSION
        wants_expiry = attribute >> EXPIRY_SHIFT & 3 in (Expiry.TTL, Expiry.AT)
        if (
            attribute & OPERATION_MASK == _VOID
            or unknown_attribute((attribute,)) is not None
            or not header.is_known
            or wants_version != bool(header.flags & HAS_VERSION)
            or wants_expiry != bool(header.flags & HAS_EXPIRY)
        ):
            return f"its attribute {attribute:#06x} is not one that Duramen writes"
    if not key and attribute & OPERATION_MASK not in _KEYLESS:
        return "it has no key"
    if key is not None and len(key) > KEY_BYTES_MAX:
        return f"its key has {len(key)} bytes; {KEY_BYTES_MAX} are possible"
    if value is not None and len(value) > VALUE_BYTES_MAX:
        return f"its value has {len(value)} bytes; {VALUE_BYTES_MAX} are possible"
    return ""
