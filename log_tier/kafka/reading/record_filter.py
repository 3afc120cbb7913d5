"""A partition's record filter: from the messages that a shared consumer fetched to stored batches.

Sets of plain puts, nearly all there are, go column by column; everything else, record by record (`assembly`, which says
what the records mean). Both ways give the same batches, and how a fetch cut the messages does not matter: the beginning
of a set is held until its end is here, or until it shows that it has none.
"""

from __future__ import annotations

from typing import Any

from log_tier.kafka.records.assembly import Assembly, KafkaRecord
from log_tier.kafka.records.header import HEADER_NAME, PLAIN_SET, RecordHeader
from log_tier.kafka.records.header import read_header as read_record_header
from log_tier.model.batch import BATCH_RECORDS_MAX
from log_tier.model.batch_header import NOWHERE, Place
from log_tier.model.errors import InvalidKey, InvalidValue, LimitExceeded, UnknownFormat
from log_tier.model.identifiers import Offset, Partition

__all__ = ["RecordFilter"]


class RecordFilter:
    """The filter of one reader; used by its consumer's thread alone.

    Invariant: what was given, what is held and what lies before `position` are the same offsets.
    """

    def __init__(self, topic: str, partition: Partition, start: Offset, place: Place = NOWHERE) -> None:
        self._topic, self._partition = topic, partition
        self._assembly = Assembly(start, place)
        self._held: list[Any] = []
        """Messages of a set whose end is not here yet."""
        self.position = start
        """The first offset that was not taken yet."""
        self.unreadable: UnknownFormat | None = None
        """A record of a later version, at which reading ends."""

    @property
    def next_offset(self) -> Offset:
        """The first offset that is in no batch yet."""
        return self._assembly.next_offset

    def end(self, offset: Offset) -> list[bytes]:
        """The partition ends before `offset`: batches that cover its last offsets where those hold no record."""
        if offset < self.position or self._held:
            return []
        batches = self._assembly.end(offset)
        self.position = offset
        return batches

    def take(self, fresh: list[Any]) -> list[bytes]:
        """Stored batches of the messages that were held and the fresh ones; holds what is not whole."""
        position = self.position
        if fresh[0].offset() < position:  # from before a seek
            fresh = [message for message in fresh if message.offset() >= position]
            if not fresh:
                return []
        messages = self._held + fresh if self._held else fresh
        self._held = []
        self.position = Offset(messages[-1].offset() + 1)
        assembly, batches = self._assembly, []
        offsets = [message.offset() for message in messages]
        loose: list[KafkaRecord] = []
        at, count = 0, len(messages)
        while at < count:
            try:
                header, bad = _header_of(messages[at])
            except UnknownFormat as error:
                self.unreadable = UnknownFormat(
                    f"{self._topic}/{self._partition} at offset {offsets[at]}: {error.message}", offset=offsets[at]
                )
                break
            if header is None or not header.flags & PLAIN_SET:
                loose.append(_record(messages[at], offsets[at], header, bad))
                at += 1
                continue
            last = at + header.after
            if last >= count and _may_become_whole(header, messages, offsets, at):
                self._held = messages[at:]  # the rest of the set is on its way
                break
            if loose:
                batches += assembly.take(loose)
                loose = []
            whole = _plain_set(assembly, messages, offsets, at, last, header) if last < count else None
            if whole is None:
                loose.append(_record(messages[at], offsets[at], header, bad))
                at += 1
            else:
                batches += whole
                at = last + 1
        if loose:
            batches += assembly.take(loose)
        return batches


def _may_become_whole(header: RecordHeader, messages: list[Any], offsets: list[int], at: int) -> bool:
    """Whether the messages from `at` on are the beginning of the set that the first one's header describes."""
    seen = len(messages) - 1 - at
    if offsets[-1] - offsets[at] != seen or header.after >= BATCH_RECORDS_MAX:
        return False
    if not seen:
        return True
    try:
        newest, _ = _header_of(messages[-1])
    except UnknownFormat:
        return False
    return newest == header._replace(
        before=header.before + seen, after=header.after - seen, sequence=header.sequence + seen
    )


def _plain_set(
    assembly: Assembly, messages: list[Any], offsets: list[int], at: int, last: int, header: RecordHeader
) -> list[bytes] | None:
    """The batch of a whole set of plain puts that lies at `at` to `last`; None where it is not one."""
    if offsets[last] - offsets[at] != header.after:
        return None
    if last > at:
        try:
            end, _ = _header_of(messages[last])
        except UnknownFormat:
            return None  # the loop comes to it
        if end != header._replace(
            before=header.before + header.after, after=0, sequence=header.sequence + header.after
        ):
            return None
    part = messages[at : last + 1]
    keys = [message.key() for message in part]
    values = [message.value() for message in part]
    if None in keys or None in values:
        return None
    timestamp_ms = max(_time_of(part[0]), _time_of(part[-1]))
    try:
        return assembly.take_plain_set(Offset(offsets[at]), timestamp_ms, header, keys, values)
    except (InvalidKey, InvalidValue, LimitExceeded):
        return None  # a forged header: record by record, then


def _header_of(message: Any) -> tuple[RecordHeader | None, bool]:
    """Our header, and whether the message has a header of our name that is not ours."""
    for name, value in message.headers() or ():
        if name == HEADER_NAME:
            header = read_record_header(value) if isinstance(value, bytes) else None
            return header, header is None
    return None, False


def _time_of(message: Any) -> int:
    """Its timestamp, in ms since 1970; 0 where a producer wrote none, or one before that."""
    return max(0, int(message.timestamp()[1]))


def _record(message: Any, offset: int, header: RecordHeader | None, bad: bool) -> KafkaRecord:
    return KafkaRecord(Offset(offset), _time_of(message), message.key(), message.value(), header, bad)
