"""Scans, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final, NamedTuple

from duramen.client.context import ClientContext
from duramen.client.model.consistency import Asked
from duramen.client.retry import ask_until
from log_tier.model.errors import InvalidKey, InvalidRequest
from log_tier.model.identifiers import Partition
from log_tier.model.table_ref import TableRef
from router.data.requests import ScanRequest, ScanResult
from serving_tier.index.scan import prefix_range

__all__ = ["ScanRange", "scan_table"]

# A first page that comes fast, then larger ones.
_PAGE_FIRST: Final = 200
_PAGE_MAX: Final = 4000


class ScanRange(NamedTuple):
    """What a scan covers: start inclusive, end exclusive (None: to the end of the table)."""

    start: bytes
    end: bytes | None
    reverse: bool
    limit: int | None

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


async def scan_table(
    context: ClientContext, ref: TableRef, asked_range: ScanRange, asked: Asked, deadline: float, timeout: float
) -> AsyncGenerator[ScanResult, None]:
    """Yield pages until the range or the limit is exhausted; each page is at least as new as the one before it, and of
    the same version of the table as the first one, whatever is swapped in meanwhile.

    Where a page is lost, the scan asks for it again: for the first one until `deadline`, which is on the event loop's
    clock, for each other one for `timeout` seconds.
    """
    start, end, reverse, left = asked_range
    loop = asyncio.get_running_loop()
    size = _PAGE_FIRST
    strong = asked.strong
    versions: dict[Partition, int] = {}
    seen = asked.named(context.session, ref)
    while (left is None or left > 0) and (end is None or start < end):
        request = ScanRequest(
            ref.id,
            start,
            end,
            reverse,
            size if left is None else min(size, left),
            after=seen,
            strong=strong,
            lag_max_ms=asked.lag_max_ms,
            table_versions=versions,
        )

        async def ask(remaining: float, request: ScanRequest = request) -> ScanResult:
            return await context.connection.scan(request, timeout=remaining)

        page = await ask_until(deadline, ask)
        if asked.seen:
            context.session.saw_all(ref, page.applied)
        seen.update(page.applied)
        versions = versions or dict(page.table_versions)
        yield page
        if not page.more or not page.keys:
            return
        if left is not None:
            left -= len(page.keys)
        strong = False  # the first page has waited for the log's end
        if reverse:
            end = page.keys[-1]
        else:
            start = page.keys[-1] + b"\x00"
        size = min(size * 4, _PAGE_MAX)
        deadline = loop.time() + timeout
