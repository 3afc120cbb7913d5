"""Which records a table with a definition takes, on every replica alike: what fits it, as its judge decides, and what
has no value of a unique index that another row has.

- U1 Of each value of a unique index one row at most of the live version has it, at every offset and log time.
- U2 Whether a record is rejected depends on the records before it and their log times alone: not on where a chunk ends,
     which expired rows are swept, or what else the replica has applied.
- U3 Who is first in the log has the value. A row that is rejected has changed nothing, nor has its group.
- U4 A record that the live version accepted takes effect in every version. There the row that it meets expires.

Before a row is put, the fold looks for each of its values (`log_tier.rows.index_entries`) whether another row
has it now. A row that has expired by the log's time has nothing any more, whether it is swept from a file or not. So
the answer depends on the records before this one alone, and is the same on every replica.

Three places know who has a value, the newest first: the group that is being staged, what this fold changed before it,
and the index as it was before the fold. The first two remember who **took** a value last. That row may have lost it
again; then nobody has it: a row takes a value where it is free, so no row that had it before has it now, and each
later one would have taken it.

A version of a table that is not live follows the live one, which has decided already. Where a row that the live one
accepted takes a value that another row of this version has, that other row **gives way**: it expires. In an empty
version it has expired in the live one, too, and was only written without the time. In a version to which the table may
be rolled back it is a row that was not there any more when the new one was accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Final, NamedTuple, Protocol

from log_tier.model.identifiers import Offset
from log_tier.model.record import UPDATES, Operation
from log_tier.rows.definition import TableDefinition
from log_tier.rows.index_entries import UniqueValues, index_of_value
from log_tier.rows.patches.row_patcher import patcher_of
from serving_tier.fold.entry import is_live, value_begin

__all__ = ["FirstMisfit", "Holder", "UniqueRows", "UniqueView", "fits", "misfit_reason"]

_PUT: Final = Operation.PUT
_PATCH: Final = Operation.PATCH


class FirstMisfit(NamedTuple):
    """One of the records that do not fit, for people."""

    offset: Offset
    why: str
    """Which field, what is wrong, and what it should be."""


def fits(definition: TableDefinition, operation: int, key: bytes, value: bytes) -> bool:
    """Can the table hold what this record writes? A record that writes no value fits: it finds nothing to change.

    What updates compute are numbers and longer texts. A table of texts takes them; one of rows does not, since neither
    is a row. A patch fits rows whose fields it changes. About 4 µs for a row of eight fields.
    """
    judge = definition.judge
    if operation == _PUT:
        return judge.refusal(key, value) is None
    if operation in UPDATES:
        return not judge.holds_rows and judge.refusal(key, value) is None
    if operation == _PATCH:
        return patcher_of(definition).refusal(key, value) is None
    return True


def misfit_reason(definition: TableDefinition, operation: int, key: bytes, value: bytes) -> str:
    """Why a record does not fit, in one sentence. As dear as `fits`."""
    if operation == _PATCH:
        return patcher_of(definition).refusal(key, value) or "it fits"
    if operation in UPDATES and definition.judge.holds_rows:
        return "a table of rows takes no arithmetic and no appends of whole values: name the fields"
    return definition.judge.refusal(key, value) or "it fits"


class UniqueView(Protocol):
    """What is read of an index to find who has a value."""

    def with_value(self, value: bytes, /) -> Iterable[bytes]:
        """The keys of the rows whose entries begin with a value, expired ones too, while nothing is written."""
        ...


class Holder(NamedTuple):
    """Who has a value."""

    number: int
    """Of the unique index."""
    key: bytes
    """Of the row that has it."""


class UniqueRows:
    """Looks for the holders of values, for one record.

    `taken`: by value, who took it last; the newest place first. `present`: what a key has by now.
    """

    def __init__(
        self,
        values: UniqueValues,
        view: UniqueView,
        taken: tuple[Mapping[bytes, bytes], ...],
        present: Callable[[bytes], bytes | None],
        log_time_ms: int,
    ) -> None:
        self._values, self._view, self._taken = values, view, taken
        self._present, self._log_time_ms = present, log_time_ms

    def take(self, key: bytes, stored: bytes, into: MutableMapping[bytes, bytes]) -> Holder | None:
        """The first one of another row's values that this row would have; None: they are free, and it takes them.

        `stored`: what the key is to have. One lookup for each of its values, and one more for each row that is met.
        """
        values = self._values.of(key, stored, value_begin(stored))
        for value in values:
            holder = self._holder(value, key)
            if holder is not None:
                return Holder(index_of_value(value), holder)
        into.update(dict.fromkeys(values, key))
        return None

    def _holder(self, value: bytes, but: bytes) -> bytes | None:
        for taken in self._taken:
            key = taken.get(value)
            if key is not None:
                return key if key != but and self._has(key, value) else None
        return next((key for key in self._view.with_value(value) if key != but and self._has(key, value)), None)

    def _has(self, key: bytes, value: bytes) -> bool:
        stored = self._present(key)
        return (
            stored is not None
            and is_live(stored, self._log_time_ms)
            and value in self._values.of(key, stored, value_begin(stored))
        )
