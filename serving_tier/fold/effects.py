"""What a fold has an index do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from log_tier.model.barrier import LiveVersion
from log_tier.model.identifiers import Offset
from log_tier.rows.definition import TableDefinition
from log_tier.tally.period import Period
from serving_tier.fold.decision import Record
from serving_tier.fold.last_batch import LastBatch
from serving_tier.fold.misfits import FirstMisfit, misfit_reason
from serving_tier.fold.past import KeyChanged, PastEntry
from serving_tier.fold.producers import ProducerState
from serving_tier.fold.verdicts import Judgement

__all__ = ["Effects"]


@dataclass(slots=True)
class Effects:
    """What an index has to do, all in one transaction."""

    applied: Offset
    log_time_ms: int
    definition: TableDefinition | None = None
    """What the table's keys and values are after the last record; None: bytes."""
    defined: bool = False
    """A barrier has changed it: `definition` is to be written down."""
    entries: dict[bytes, bytes | None] = field(default_factory=dict)
    """The new stored form of each key that changed; None: removed."""
    removes: bool = False
    """Some of `entries` are None."""
    taken: dict[bytes, bytes] = field(default_factory=dict)
    """By value of a unique index: the key that took it last in this fold."""
    index_changes: dict[bytes, bytes | None] = field(default_factory=dict)
    """Entries of ordered indexes that come, with what is stored under them, and those that go (None)."""
    changed: list[KeyChanged] | None = None
    """Of a table that keeps a history: each change of a key, in the order of the log."""
    times: list[tuple[Offset, int]] = field(default_factory=list)
    """Of such a table: the base offset of each batch that raised the log time, and what it is from there on."""
    past: Sequence[PastEntry] = ()
    """What these changes replaced."""
    hints: dict[tuple[int, bytes], bool] = field(default_factory=dict)
    """(expiry in ms, key) to note (True) or to strike out (False)."""
    producers: dict[int, ProducerState | None] = field(default_factory=dict)
    """New states, the oldest first; None: forgotten."""
    judgements: list[Judgement] = field(default_factory=list)
    """In the order of their offsets."""
    results: list[tuple[Offset, bytes]] = field(default_factory=list)
    """In the order of their offsets. Of a record whose value another row has: the key of that row."""
    records: int = 0
    rejected: int = 0
    duplicates: int = 0
    void: int = 0
    """Rejected records that no table can hold; `rejected` counts them too."""
    misfits: int = 0
    """Void records that do not fit the table's definition; `void` counts them too."""
    first_misfit: FirstMisfit | None = None
    """The first of them."""
    live: LiveVersion | None = None
    """The live version after the last barrier that took effect; None: no barrier did."""
    went_live: tuple[LiveVersion, ...] = ()
    """The live version after each barrier that took effect, in their order."""
    last: LastBatch | None = None
    """The batch with the applied offset; None: nothing was folded."""
    counted: Sequence[Period] = ()
    """The minutes that came to their end (`log_tier.tally`)."""
    counting: Period | None = None
    """The minute that goes on."""

    def note_changes(self, entries: Iterable[tuple[Offset, bytes, bytes | None]]) -> None:
        """Take entries for what their keys have from these offsets on."""
        if self.changed is not None:
            time = self.log_time_ms
            self.changed += [KeyChanged(offset, key, stored, time) for offset, key, stored in entries]

    def note_misfit(self, record: Record, size: int) -> None:
        """Count the `size` records that take effect together or not at all, of which this one does not fit."""
        self.misfits += size
        if self.first_misfit is None and self.definition is not None:
            why = misfit_reason(self.definition, record.operation, record.key, record.value)
            self.first_misfit = FirstMisfit(record.offset, why)
