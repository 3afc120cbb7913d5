"""A row of `_duramen_audit` as bytes, and back. `docs/FORMATS.md` has the layout; no other file builds or parses it.

key    1764104400123/n1/3fa9c2d1/00000042       ms since 1970 / server / process / number: keys sort by time
value  {"v":1,"time_ms":…,"until_ms":…,"count":…,"server":…, then the fields of `AuditEvent`, and key_text}
"""

from __future__ import annotations

import json
from typing import Any, Final

from log_tier.audit.audit_event import TEXT_MAX, AuditEvent
from log_tier.audit.audit_row import AuditRow
from log_tier.model.errors import UnknownFormat

__all__ = ["ROW_VERSION", "first_key_at", "parse_row", "row_key", "row_value"]

ROW_VERSION: Final = 1

# Until the year 2286.
_TIME_DIGITS: Final = 13


def first_key_at(time_ms: int) -> bytes:
    """What no key of an earlier time reaches: rows from `time_ms` on begin here."""
    return f"{max(0, time_ms):0{_TIME_DIGITS}}".encode("ascii")


def row_key(row: AuditRow, server: str, process: str) -> bytes:
    """The row's key. `process`: 8 hex digits that no other process of this server has: routers share their name."""
    return b"%s/%s/%s/%08d" % (first_key_at(row.time_ms), server.encode(), process.encode(), row.sequence)


def row_value(row: AuditRow, server: str, key_text: str = "") -> bytes:
    """The row's value: one JSON object, about 300 bytes. `key_text`: the event's `key` in fields, if it has any."""
    fields: dict[str, Any] = {
        "v": ROW_VERSION,
        "time_ms": row.time_ms,
        "until_ms": row.until_ms,
        "count": row.count,
        "server": server,
        **row.event._asdict(),
        "key_text": key_text[:TEXT_MAX],
    }
    return json.dumps(fields, separators=(",", ":")).encode()


_FIELDS: Final = ("time_ms", "until_ms", "count", "server", *AuditEvent._fields)


def parse_row(key: bytes, value: bytes) -> dict[str, Any]:
    """The fields of a row, in their order. Raises `UnknownFormat` for what is none of version 1.

    Servers of before keys had fields wrote no `key_text`: it is empty then.
    """
    try:
        document = json.loads(value)
        version = document["v"]
        if version == ROW_VERSION:
            return {name: document[name] for name in _FIELDS} | {"key_text": document.get("key_text", "")}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnknownFormat(f"{key!r} is no row of an audit: {error!r}") from error
    raise UnknownFormat(f"the row {key!r} has version {version!r}, this Duramen knows version {ROW_VERSION}")
