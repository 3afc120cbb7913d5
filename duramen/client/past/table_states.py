"""The half of a table that says in which state it is, and compares two of its states."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from duramen.client.model.consistency import AsOf
from duramen.client.model.pages import items_of
from duramen.client.model.results import KeyDifference
from duramen.client.model.scan_range import ScanRange
from duramen.client.past.states_lookup import StatesLookup
from log_tier.model.tokens import Token
from router.data.requests import TableDescription

__all__ = ["TableStates"]


class TableStates:
    """A state is an offset for each partition."""

    lookup: StatesLookup

    async def describe(self, *, timeout: float | None = None) -> TableDescription:
        """The state of each partition: offsets, keys, bytes, nodes. Raises `TableNotFound`."""
        return await self.lookup.describe(timeout=timeout)

    async def end_token(self, *, timeout: float | None = None) -> str:
        """A token of everything that is in the table's log now, in every partition. Raises `TableNotFound`."""
        description = await self.describe(timeout=timeout)
        return str(Token({description.table.id: {part.partition: part.latest for part in description.partitions}}))

    def diff(
        self,
        before: AsOf,
        after: AsOf | None = None,
        *,
        prefix: bytes | None = None,
        start: bytes | None = None,
        end: bytes | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[KeyDifference[bytes, bytes], None]:
        """The keys whose values differ between two states, each with both values: of all keys, of a `prefix`, or from
        `start` (inclusive) to `end` (exclusive). `before` and `after` are tokens, or times with a time zone; `after` is
        now where it is left out. A key that was written and has the same value again does not differ.

        Keys come in order within each partition, and one partition comes behind the other. It is read page by page,
        each in the same two states, whatever is written meanwhile; `timeout` is per page. Cost at the server: some
        10 µs for each key of the range that has or had something. Raises what `get` does with `at`.
        """
        return items_of(self.diff_pages(before, after, prefix=prefix, start=start, end=end, timeout=timeout))

    async def diff_pages(
        self,
        before: AsOf,
        after: AsOf | None = None,
        *,
        prefix: bytes | None = None,
        start: bytes | None = None,
        end: bytes | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[list[KeyDifference[bytes, bytes]], None]:
        """Compare as `diff` does, and yield whole pages."""
        from duramen.client.past.differences import difference_pages  # few programs compare

        asked_range = ScanRange.of(prefix=prefix, start=start, end=end, reverse=False, limit=None)
        async with aclosing(difference_pages(self.lookup, asked_range, before, after, timeout)) as pages:
            async for page in pages:
                yield page
