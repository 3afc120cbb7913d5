"""The semantics once more, in straight lines and without any of the code under test: what the indexes are checked with.

It keeps everything for ever, knows no chunks, no overlay and no bytes, and reads like the specification.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from kit.log.stored_log import Said
from log_tier.model.record import VALUE_BYTES_MAX, Condition, Expiry, Operation


@dataclass
class Held:
    value: bytes
    version: int
    expires: int | None


class Refused(Exception):
    def __init__(self, verdict: str, actual: int = -1) -> None:
        super().__init__(verdict)
        self.verdict, self.actual = verdict, actual


def number(text: bytes) -> int | float:
    if len(text) <= 64 and re.fullmatch(rb"-?\d+", text):
        if -(2**63) <= int(text) < 2**63:
            return int(text)
    elif (
        len(text) <= 64 and re.fullmatch(rb"-?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", text) and math.isfinite(float(text))
    ):
        return float(text)
    raise Refused("NOT_A_NUMBER")


@dataclass
class NaiveModel:
    held: dict[bytes, Held] = field(default_factory=dict)
    now: int = 0
    applied: int = -1
    producers: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Producer → the last batch's first sequence, first offset, number of offsets."""
    rejected: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    """Offset → verdict, version found, offset at fault."""
    copies: dict[int, int] = field(default_factory=dict)
    """Offset of a duplicate → offset of the original, -1 where nobody can know."""
    results: dict[int, bytes] = field(default_factory=dict)

    def look(self, key: bytes) -> Held | None:
        held = self.held.get(key)
        return held if held is None or held.expires is None or held.expires > self.now else None

    def live(self) -> dict[bytes, tuple[bytes, int, int]]:
        found = {}
        for key in sorted(self.held):
            held = self.look(key)
            if held is not None:
                found[key] = (held.value, held.version, held.expires or 0)
        return found

    def batch(self, records: list[Said], time_ms: int, producer_id: int, sequence: int) -> None:
        base = self.applied + 1
        self.now = max(self.now, time_ms)
        self.applied += len(records)
        fresh: list[tuple[int, Said]] = []
        first, start, span = self.producers.get(producer_id, (0, 0, 0))
        for place, record in enumerate(records):
            seen = sequence + place
            if producer_id and seen < first + span:
                self.copies[base + place] = start + seen - first if sequence >= first else -1
            else:
                fresh.append((base + place, record))
        if producer_id and fresh:
            skipped = len(records) - len(fresh)
            self.producers[producer_id] = (sequence + skipped, base + skipped, len(fresh))
        groups: list[list[tuple[int, Said]]] = []
        for offset, record in fresh:
            if record.grouped and groups:
                groups[-1].append((offset, record))
            else:
                groups.append([(offset, record)])
        for group in groups:
            self.group(group)

    def group(self, group: list[tuple[int, Said]]) -> None:
        held_before, results_before = dict(self.held), dict(self.results)
        for offset, record in group:
            try:
                self.one(offset, record)
            except Refused as refused:
                self.held, self.results = held_before, results_before
                for member, _ in group:
                    self.rejected[member] = (refused.verdict, refused.actual, offset)
                return

    def one(self, offset: int, record: Said) -> None:
        there = self.look(record.key)
        version = -1 if there is None else there.version
        if record.condition is Condition.ABSENT and there is not None:
            raise Refused("CONDITION_FAILED", version)
        if record.condition is Condition.PRESENT and there is None:
            raise Refused("CONDITION_FAILED", version)
        if record.condition is Condition.VERSION and version != record.version:
            raise Refused("CONDITION_FAILED", version)
        if record.operation is Operation.NOOP:
            return
        if record.operation in (Operation.VOID, Operation.BARRIER):  # none that is one
            raise Refused("UNREADABLE", -1)
        if record.operation is Operation.PATCH:  # the values of this model are no rows
            raise Refused("MISFIT", -1)
        if record.operation is Operation.DELETE:
            if there is not None:
                del self.held[record.key]
            return
        value = record.value
        if record.operation is not Operation.PUT:
            value = self.updated(record, there)
            result = str(len(value)).encode() if record.operation is Operation.APPEND else value
            self.results[offset] = result
        expires = None
        kept = record.expiry is Expiry.KEEP or (record.expiry is Expiry.NONE and record.operation is not Operation.PUT)
        if kept and there is not None:
            expires = there.expires
        if record.expiry is Expiry.TTL:
            expires = self.now + record.expiry_ms
        if record.expiry is Expiry.AT:
            expires = record.expiry_ms
        self.held[record.key] = Held(value, offset, expires)

    def updated(self, record: Said, there: Held | None) -> bytes:
        if record.operation is Operation.APPEND:
            value = (there.value if there else b"") + record.value
            if len(value) > VALUE_BYTES_MAX:
                raise Refused("RESULT_TOO_LARGE")
            return value
        operand = number(record.value)
        current = number(there.value) if there else None
        if record.operation is Operation.ADD:
            result = (0 if current is None else current) + operand
        elif record.operation is Operation.MULTIPLY:
            result = (0 if current is None else current) * operand
        elif current is None:
            result = operand
        elif record.operation is Operation.MIN:
            result = min(current, operand)
        else:
            result = max(current, operand)
        if isinstance(result, float) and not math.isfinite(result):
            raise Refused("NUMBER_OVERFLOW")
        if isinstance(result, int) and not -(2**63) <= result < 2**63:
            raise Refused("NUMBER_OVERFLOW")
        return repr(result).encode()
