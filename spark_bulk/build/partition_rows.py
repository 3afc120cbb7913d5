"""The rows of one partition as Spark gives them, sorted: what no table can hold as a row is refused by name.

    partition       int32; `partitions` more than the partition's number marks the one row that is none (see below)
    key             binary
    value           binary
    version         int64, by choice
    expires_at_ms   int64, by choice; 0 or null for never

**The mark.** Every partition is sent one row with a null key, so that none is empty: Spark leaves out work on what it
knows to be empty, and an empty partition needs an index too. That a task finds exactly one mark, its own, is the proof
that it has one whole partition of the table and nothing of another one.

**Duplicates.** Rows of one key follow one another, the one to keep first: that is how they were sorted. So dropping the
others needs the key before, and no memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue
from log_tier.model.identifiers import Partition
from log_tier.model.record import KEY_BYTES_MAX, VALUE_BYTES_MAX

__all__ = ["DUPLICATES", "Duplicates", "PartitionRows", "RowBatch"]

Duplicates = Literal["error", "last"]

DUPLICATES: Final = ("error", "last")
"""What is done with several rows of one key: refuse the build, or keep the last one by an order."""

# Of a key or a value, in messages.
_SHOWN_BYTES: Final = 40


class RowBatch(NamedTuple):
    """Rows that can be written."""

    keys: pa.Array
    values: pa.Array
    versions: Sequence[int] | None
    expires_at_ms: Sequence[int] | None


class PartitionRows:
    """Takes the batches of a partition in order, with `take`, then `finish`.

    `key_name` and `value_name`: what the columns are called where they come from, for people.
    """

    def __init__(
        self, partition: Partition, partitions: int, *, duplicates: Duplicates, key_name: str, value_name: str
    ) -> None:
        self._partition, self._partitions, self._duplicates = partition, partitions, duplicates
        self._key_name, self._value_name = key_name, value_name
        self._marks = 0
        self._last: bytes | None = None
        self.rows = 0
        """Rows that came."""
        self.dropped = 0
        """Rows that were left out by the rule for duplicates."""

    def take(self, batch: pa.RecordBatch) -> RowBatch | None:
        """The rows of a batch that are to be written; None for none. Some 15 ns a row.

        Raises `InvalidKey`, `InvalidValue`, and `InvalidRequest` for duplicates where they are an error.
        """
        batch = self._without_mark(batch)
        if not batch.num_rows:
            return None
        self._check_place(batch.column("partition"), self._partition)
        self.rows += batch.num_rows
        self._check_keys(batch.column("key"))
        batch = self._without_repeated(batch)
        if not batch.num_rows:
            return None
        keys, values = batch.column("key"), batch.column("value")
        self._check_values(keys, values)
        versions, expiries = _numbers(batch, "version"), _numbers(batch, "expires_at_ms")
        if expiries is not None and min(expiries) < 0:
            key = keys[next(row for row, due in enumerate(expiries) if due < 0)].as_py()
            raise InvalidValue(
                f"the row of the key {_shown(key)} expires at {min(expiries)} ms: it is a time after 1970, or null for "
                "a row that does not expire"
            )
        return RowBatch(keys, values, versions, expiries if expiries is not None and any(expiries) else None)

    def finish(self) -> None:
        """Check that the partition's mark was seen exactly once. Call it after the last batch."""
        assert self._marks == 1, f"partition {self._partition} was given {self._marks} marks"

    def _without_mark(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Nulls sort first, so the mark is among the first rows; other rows without a key are refused there."""
        keys = batch.column("key")
        if not keys.null_count:
            return batch
        head = batch.slice(0, keys.null_count)
        assert head.column("key").null_count == keys.null_count, "the rows without a key are not the first ones"
        places = head.column("partition").to_pylist()
        marks = [place for place in places if place >= self._partitions]
        for mark in marks:
            assert mark == self._partition + self._partitions, f"mark {mark} in partition {self._partition}"
        self._marks += len(marks)
        if len(marks) < len(places):
            row = next(row for row, place in enumerate(places) if place < self._partitions)
            value = head.column("value")[row].as_py()
            raise InvalidKey(
                f"the key column {self._key_name} is null in {len(places) - len(marks)} rows or more; the first of "
                f"them has the value {'null' if value is None else _shown(value)}: fill them in, or filter them out"
            )
        return batch.slice(keys.null_count)

    @staticmethod
    def _check_place(places: pa.Array, partition: Partition) -> None:
        found = pc.min_max(places).as_py()
        assert found == {"min": partition, "max": partition}, f"rows of partitions {found} in partition {partition}"

    def _without_repeated(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = batch.column("key")
        fresh = pc.not_equal(keys, _shifted(keys, self._last))
        self._last = keys[-1].as_py()
        repeated = len(fresh) - fresh.true_count
        if not repeated:
            return batch
        if self._duplicates == "error":
            key = keys[pc.index(fresh, False).as_py()].as_py()
            raise InvalidRequest(
                f"the key column {self._key_name} has {_shown(key)} more than once: keep one row of each key, or "
                "build with duplicates='last' and order_by"
            )
        self.dropped += repeated
        return batch.filter(fresh)

    def _check_keys(self, keys: pa.Array) -> None:
        lengths = pc.binary_length(keys)
        found = pc.min_max(lengths).as_py()
        for size in (found["min"], found["max"]):
            if not 0 < size <= KEY_BYTES_MAX:
                key = keys[pc.index(lengths, size).as_py()].as_py()
                raise InvalidKey(
                    f"the key column {self._key_name} has {_shown(key)} with {size} bytes; keys have 1 to "
                    f"{KEY_BYTES_MAX}: {'hash what is longer' if size else 'fill it in, or filter it out'}",
                    size=size,
                )

    def _check_values(self, keys: pa.Array, values: pa.Array) -> None:
        if values.null_count:
            key = keys[pc.index(values.is_null(), True).as_py()].as_py()
            raise InvalidValue(
                f"the value column {self._value_name} is null for the key {_shown(key)}: a row that shall not be "
                "there is left out, one without content has empty bytes"
            )
        lengths = pc.binary_length(values)
        size = pc.max(lengths).as_py()
        if size > VALUE_BYTES_MAX:
            key = keys[pc.index(lengths, size).as_py()].as_py()
            raise InvalidValue(
                f"the value column {self._value_name} has {size} bytes for the key {_shown(key)}; values have at most "
                f"{VALUE_BYTES_MAX}: keep larger things elsewhere, and their addresses here",
                size=size,
            )


def _numbers(batch: pa.RecordBatch, name: str) -> Sequence[int] | None:
    """A column of numbers by choice, null as 0; None where it is not there."""
    if name not in batch.schema.names:
        return None
    found: list[int] = batch.column(name).fill_null(0).to_numpy().tolist()
    return found


def _shifted(keys: pa.Array, first: bytes | None) -> pa.Array:
    """Each key's predecessor. The first one's is empty, which equals no valid key."""
    before = pa.array([first if first is not None else b""], keys.type)
    return pa.concat_arrays([before, keys[:-1]])


def _shown(data: bytes) -> str:
    """Bytes for people; what is long is cut."""
    return repr(data) if len(data) <= _SHOWN_BYTES else f"{data[:_SHOWN_BYTES]!r}…"
