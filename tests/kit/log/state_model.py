"""What a log means, in the shortest form: the model that compaction is checked against.

It folds stored batches into key → (value, version, expiry), with the rules that `log_tier.model.record` states:
conditions, updates, groups, expiry by log time, and duplicates by producer and sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from log_tier.model.batch import decode_batch
from log_tier.model.record import CONDITION_SHIFT, EXPIRY_SHIFT, GROUPED, OPERATION_MASK, Condition, Expiry, Operation

NEVER = -1

_decoded = lru_cache(maxsize=256)(decode_batch)
"""A log is folded from each of its offsets: what was decoded once is kept. Nothing here changes a batch."""


@dataclass
class State:
    entries: dict[bytes, tuple[bytes, int, int]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    applied: int = -1
    time_ms: int = 0

    def copy(self) -> State:
        """The same state, to go on from. `fold` replaces `entries` and never changes them."""
        return State(self.entries, dict(self.sequences), self.applied, self.time_ms)

    def live(self) -> dict[bytes, tuple[bytes, int, int]]:
        """What a reader sees now."""
        return {key: entry for key, entry in self.entries.items() if not self.expired(entry)}

    def expired(self, entry: tuple[bytes, int, int]) -> bool:
        return entry[2] != NEVER and entry[2] <= self.time_ms


@dataclass
class Step:
    offset: int
    attribute: int
    key: bytes
    value: bytes
    version: int
    expiry: int


def fold(state: State, stored: list[bytes]) -> State:
    """Apply stored batches, in order; those below the applied offset are skipped."""
    for data in stored:
        batch = _decoded(data)
        header, columns = batch.header, batch.columns
        if header.last_offset <= state.applied:
            continue
        state.time_ms = max(state.time_ms, header.timestamp_ms)
        used = state.sequences.get(header.producer_id, -1) if header.producer_id else -1
        first = max(state.applied + 1, header.base_offset + max(0, used - header.sequence + 1))
        if header.producer_id:
            state.sequences[header.producer_id] = max(used, header.sequence + header.span - 1)
        groups: list[list[Step]] = []
        for at, offset in enumerate(batch.offsets()):
            attribute = columns.attributes[at] if columns.attributes else int(Operation.PUT)
            if offset < first:
                continue
            step = Step(
                offset,
                attribute,
                columns.keys[at],
                columns.values[at],
                columns.versions[at] if columns.versions else 0,
                columns.expiries[at] if columns.expiries else 0,
            )
            if attribute & GROUPED and groups:
                groups[-1].append(step)
            else:
                groups.append([step])
        for group in groups:
            apply(state, group)
        state.applied = header.last_offset
    return state


def apply(state: State, group: list[Step]) -> None:
    """Apply a group, whole or not at all."""
    staged = dict(state.entries)
    for step in group:
        entry = staged.get(step.key)
        if entry is not None and state.expired(entry):
            entry = None
        condition = step.attribute >> CONDITION_SHIFT & 3
        if (
            (condition == Condition.ABSENT and entry is not None)
            or (condition == Condition.PRESENT and entry is None)
            or (condition == Condition.VERSION and (entry is None or entry[1] != step.version))
        ):
            return
        operation = step.attribute & OPERATION_MASK
        if operation == Operation.NOOP:
            continue
        if operation == Operation.DELETE:
            staged.pop(step.key, None)
            continue
        expiry_rule = step.attribute >> EXPIRY_SHIFT & 3
        expiry = NEVER
        if expiry_rule == Expiry.KEEP or (expiry_rule == Expiry.NONE and operation != Operation.PUT):
            expiry = entry[2] if entry is not None else NEVER
        elif expiry_rule == Expiry.TTL:
            expiry = state.time_ms + step.expiry
        elif expiry_rule == Expiry.AT:
            expiry = step.expiry
        value = step.value
        if operation == Operation.APPEND:
            value = (entry[0] if entry else b"") + value
        elif operation == Operation.ADD:
            if entry is not None and not entry[0].isdigit():
                return
            value = b"%d" % ((int(entry[0]) if entry else 0) + int(value))
        staged[step.key] = (value, step.offset, expiry)
    state.entries = staged
