"""A page of keys, with values that are cut."""

from __future__ import annotations

from typing import Final

from log_tier.model.errors import InvalidKey, InvalidRequest, LimitExceeded
from log_tier.model.prefix_range import prefix_range
from log_tier.model.record import KEY_BYTES_MAX
from log_tier.model.table_ref import TableRef
from log_tier.rows.json_rows.json_table import JsonTable
from router.data.requests import ScanRequest
from router.data.seam import Connection
from router.proto import console_pb2 as pb

__all__ = [
    "ENTRIES_MAX",
    "VALUE_BYTES_MAX",
    "cut_entry",
    "form_of",
    "page_of_entries",
    "rows_of",
    "text_of_key",
    "value_bytes_of",
]

ENTRIES_MAX: Final = 500
"""Of one page: what a person scrolls through."""
VALUE_BYTES_MAX: Final = 64 << 10
_VALUE_BYTES: Final = 1 << 10
"""What a table of entries has room for, several times over."""
_PAGE_BYTES: Final = 1 << 20
"""Of keys and values that a page of a scan reads, give or take its last entry."""


def value_bytes_of(wanted: int) -> int:
    """How much of a value is shown. Raises `LimitExceeded`."""
    if wanted > VALUE_BYTES_MAX:
        raise LimitExceeded(
            f"a page shows at most {VALUE_BYTES_MAX} bytes of a value, not {wanted}", limit=VALUE_BYTES_MAX, size=wanted
        )
    return wanted or _VALUE_BYTES


def rows_of(wanted: int, usual: int) -> int:
    """How many rows a page has. Raises `LimitExceeded`."""
    if wanted > ENTRIES_MAX:
        raise LimitExceeded(f"a page has at most {ENTRIES_MAX} rows, not {wanted}", limit=ENTRIES_MAX, size=wanted)
    return wanted or usual


async def page_of_entries(connection: Connection, request: pb.ConsoleScanRequest, *, timeout: float) -> pb.ConsolePage:
    """A page of a table. Raises `TableNotFound`, `InvalidKey`, `InvalidRequest`, and what a scan raises."""
    bytes_max, limit = value_bytes_of(request.value_bytes_max), rows_of(request.limit, 100)
    start, end = _range(request)
    table = await connection.find_table(request.table, timeout=timeout)
    asked = ScanRequest(
        table.id, start, end, request.reverse, limit, strong=not request.eventual, bytes_max=_PAGE_BYTES
    )
    if end is not None and start >= end:
        return pb.ConsolePage()
    page = await connection.scan(asked, timeout=timeout)
    form = await form_of(connection, table, timeout=timeout)
    rows = zip(page.keys, page.values, page.versions, strict=True)
    reply = pb.ConsolePage(
        entries=[cut_entry(key, value, version, 0, bytes_max, form) for key, value, version in rows], more=page.more
    )
    if page.more and page.keys:
        last = page.keys[-1]
        reply.start, reply.end = (start, last) if request.reverse else (last + b"\x00", end or b"")
    return reply


def _range(request: pb.ConsoleScanRequest) -> tuple[bytes, bytes | None]:
    for name, bound in (("prefix", request.prefix), ("start", request.start), ("end", request.end)):
        if len(bound) > KEY_BYTES_MAX + 1:  # the next page starts at the last key and a zero byte
            raise InvalidKey(
                f"the scan's {name} has {len(bound)} bytes, keys have at most {KEY_BYTES_MAX}",
                size=len(bound),
                limit=KEY_BYTES_MAX,
            )
    if request.prefix and (request.start or request.end):
        raise InvalidRequest("give a prefix, or start and end, not both: to go on, give start and end")
    return prefix_range(request.prefix) if request.prefix else (request.start, request.end or None)


async def form_of(connection: Connection, table: TableRef, *, timeout: float) -> JsonTable | None:
    """The text of a table's keys and rows; None where its keys have no fields and its values are no rows."""
    definition = await connection.definition(table.id, timeout=timeout) if table.defined else None
    if definition is None or not (isinstance(definition.key, tuple) or definition.value == "row"):
        return None
    return JsonTable(definition)


def text_of_key(form: JsonTable | None, key: bytes) -> str:
    """A stored key as its fields; empty: it has none. A few µs."""
    try:
        return "" if form is None or not form.fields else form.key_text(key).decode()
    except InvalidKey:
        return ""


def cut_entry(
    key: bytes, value: bytes, version: int, expires_ms: int, bytes_max: int, form: JsonTable | None = None
) -> pb.ConsoleEntry:
    """An entry with the beginning of its value. `form`: of keys that are shown as their fields as well."""
    return pb.ConsoleEntry(
        key=key,
        value=value[:bytes_max],
        value_bytes=len(value),
        version=version,
        expires_at_ms=expires_ms,
        key_text=text_of_key(form, key),
    )
