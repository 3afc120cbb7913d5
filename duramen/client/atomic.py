"""Atomic batches: several records of one partition that take effect together, or not at all."""

from __future__ import annotations

from duramen.client.lookup import TableLookup
from duramen.client.model.call_records import number_of, record_of, update_of
from duramen.client.model.results import Done, Number
from log_tier.model.batch import Columns
from log_tier.model.errors import InvalidRequest, LimitExceeded, PartitionMismatch
from log_tier.model.identifiers import Offset
from log_tier.model.partitioner import placed_together
from log_tier.model.record import GROUP_RECORDS_MAX, Operation
from router.data.gather.columns_builder import joined

__all__ = ["AtomicBatch"]


class AtomicBatch:
    """Collects up to 10,000 records; `commit()` writes them. If one record's condition fails, no record takes effect.

    Later records see what earlier ones did. All keys must lie in one partition. With the partitioner `"slot"`, keys
    with a common `{tag}` do: `{user7}.name` and `{user7}.cart`. Calls can be chained.
    """

    def __init__(self, lookup: TableLookup) -> None:
        self._lookup = lookup
        self._records: list[Columns] = []
        self._committed = False

    def __len__(self) -> int:
        return len(self._records)

    def put(
        self,
        key: bytes,
        value: bytes,
        *,
        ttl: float | None = None,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
    ) -> AtomicBatch:
        """Add a put; arguments as for `Table.put`. Raises `InvalidKey`, `InvalidValue`, `LimitExceeded`."""
        return self._add(
            record_of(
                Operation.PUT,
                key,
                value,
                ttl=ttl,
                if_absent=if_absent,
                if_present=if_present,
                if_version=if_version,
                grouped=bool(self._records),
            )
        )

    def delete(self, key: bytes, *, if_present: bool = False, if_version: int | None = None) -> AtomicBatch:
        """Add a delete; arguments as for `Table.delete`. Raises `InvalidKey`, `LimitExceeded`."""
        return self._add(
            record_of(
                Operation.DELETE,
                key,
                b"",
                if_present=if_present,
                if_version=if_version,
                grouped=bool(self._records),
            )
        )

    def update(
        self,
        key: bytes,
        *,
        add: Number | None = None,
        multiply: Number | None = None,
        min: Number | None = None,  # noqa: A002 - the operation's name
        max: Number | None = None,  # noqa: A002 - the operation's name
        append: bytes | None = None,
        if_version: int | None = None,
    ) -> AtomicBatch:
        """Add an update; arguments as for `Table.update`. Raises `InvalidKey`, `InvalidRequest`, `LimitExceeded`."""
        operation, operand = update_of({"add": add, "multiply": multiply, "min": min, "max": max, "append": append})
        return self._add(record_of(operation, key, operand, if_version=if_version, grouped=bool(self._records)))

    def patch(self, key: bytes, value: bytes, *, if_version: int | None = None) -> AtomicBatch:
        """For tables of rows: add a patch of a row (`log_tier.rows.patches`). Raises as `put`."""
        return self._add(record_of(Operation.PATCH, key, value, if_version=if_version, grouped=bool(self._records)))

    def _add(self, record: Columns) -> AtomicBatch:
        if self._committed:
            raise InvalidRequest("this batch was committed; begin another one")
        if len(self._records) >= GROUP_RECORDS_MAX:
            raise LimitExceeded(f"an atomic batch has at most {GROUP_RECORDS_MAX} records", limit=GROUP_RECORDS_MAX)
        self._records.append(record)
        return self

    async def commit(self, *, timeout: float | None = None) -> list[Done]:
        """Write the records; return one `Done` per record, in order, when they are on stable storage and applied.

        A batch can be committed once. Raises `PartitionMismatch` if the keys lie in several partitions (nothing was
        written); a `Rejected` error if one record was rejected (no record took effect); `WriteUnknown` if no reply
        came.
        """
        if self._committed:
            raise InvalidRequest("this batch was committed already")
        if not self._records:
            return []
        lookup, context = self._lookup, self._lookup.context
        deadline = context.deadline(timeout)
        ref = lookup.ref or await lookup.resolve(deadline)
        partitions = {ref.partition_of(record.keys[0]): record.keys[0] for record in self._records}
        if len(partitions) > 1:
            (first, one), (second, other) = list(partitions.items())[:2]
            raise PartitionMismatch(
                f"{one[:40]!r} lies in partition {first} of {lookup.name}, {other[:40]!r} in {second}: an atomic batch "
                f"touches one partition; {placed_together(ref.partitioner)}"
            )
        (partition,) = map(ref.partition, partitions)
        call = context.writes.submit(ref, partition, joined(self._records), outcomes=True, deadline=deadline)
        self._committed = True
        written = await lookup.noticing_drops(call)
        results = written.results or [None] * len(self._records)
        return [
            Done(*partition, Offset(written.offset + number), number_of(result))
            for number, result in enumerate(results)
        ]
