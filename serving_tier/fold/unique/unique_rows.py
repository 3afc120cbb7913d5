"""Which row has a value that one row alone may have: unique indexes, decided by the order of the log. Pure.

Before a row is put, the fold looks for each of its values (`log_tier.rows.defined.unique_values`) whether another row
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
from typing import NamedTuple, Protocol

from log_tier.rows.defined.unique_values import UniqueValues, index_of_value
from serving_tier.fold.entry import is_live, value_begin

__all__ = ["Holder", "UniqueRows", "UniqueView"]


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
