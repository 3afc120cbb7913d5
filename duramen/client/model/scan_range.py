"""What a scan covers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from log_tier.model.errors import InvalidKey, InvalidRequest
from log_tier.model.identifiers import Partition
from log_tier.model.partitioner import partition_of_prefix
from log_tier.model.prefix_range import prefix_range
from log_tier.model.table_ref import TableRef
from log_tier.rows.finding.found_range import FindPlan

__all__ = ["ScanRange"]


class ScanRange(NamedTuple):
    """What a scan covers: start inclusive, end exclusive (None: to the end of the table)."""

    start: bytes
    end: bytes | None
    reverse: bool
    limit: int | None
    index_name: str = ""
    """The name of an ordered index, whose entries `start` and `end` are; empty: the table's keys."""
    index_number: int = 0
    key_prefix: bytes = b""
    """The keys of all that is wanted begin with these elements; empty: they may be any."""

    @classmethod
    def of(
        cls, *, prefix: bytes | None, start: bytes | None, end: bytes | None, reverse: bool, limit: int | None
    ) -> ScanRange:
        """Check a call's arguments. Raises `InvalidRequest`, `InvalidKey`."""
        for name, bound in (("prefix", prefix), ("start", start), ("end", end)):
            if bound is not None and type(bound) is not bytes:
                hint = ": encode it" if isinstance(bound, str) else ""
                raise InvalidKey(f"the {name} of a scan is bytes, this is {type(bound).__name__}{hint}")
        if prefix is not None:
            if start is not None or end is not None:
                raise InvalidRequest("give a prefix, or start and end, not both")
            start, end = prefix_range(prefix)
        if limit is not None and (type(limit) is not int or limit < 0):
            raise InvalidRequest(f"limit is a whole number, at least 0, or None, not {limit!r}")
        return cls(start or b"", end, reverse, limit)

    @classmethod
    def of_plan(cls, plan: FindPlan, limit: int | None) -> ScanRange:
        """What a find goes through."""
        return cls(plan.start, plan.end, plan.reverse, limit, plan.index_name, plan.index_number, plan.key_prefix)

    def partitions_of(self, ref: TableRef) -> Sequence[Partition]:
        """The one partition that has all of it; none: what is asked for by its bounds."""
        only = partition_of_prefix(self.key_prefix, ref.partitions, ref.partitioner) if self.key_prefix else None
        return () if only is None else (only,)
