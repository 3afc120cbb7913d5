"""The document: what a server says of itself, as values. Pure.

docs/FORMATS.md describes the JSON. A reader ignores fields that it does not know; a change of meaning is a new number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from duramen.server.sight.observed import Observed, PartitionStatus
from duramen.server.sight.troubles import Trouble, hidden_trouble, troubles_of

__all__ = ["STATUS_FORMAT", "StatusDocument", "status_of_server", "status_to_dict", "status_to_json"]

STATUS_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class StatusDocument:
    """The document."""

    ready: bool
    """Does the server answer everything that it should? A load balancer sends requests to servers that are ready."""
    troubles: tuple[Trouble, ...]
    """What is wrong, the most urgent first. Empty: all is well."""
    observed: Observed

    @property
    def first(self) -> str:
        """The one thing to do first; empty: there is nothing to do."""
        return self.troubles[0].do if self.troubles else ""


def status_of_server(observed: Observed, shows: Callable[[str], bool] | None = None) -> StatusDocument:
    """The document for a caller to whom `shows` says which tables are shown; None: all. O(partitions)."""
    troubles = troubles_of(observed)
    ready = not any(each.blocks for each in troubles)
    if shows is None:
        return StatusDocument(ready, troubles, observed)
    seen = replace(observed, partitions=tuple(each for each in observed.partitions if shows(each.table)))
    shown = troubles_of(seen)
    if not ready and not any(each.blocks for each in shown):
        shown = (hidden_trouble(), *shown)
    return StatusDocument(ready, shown, seen)


def status_to_json(status: StatusDocument) -> bytes:
    """The document as one line of JSON, with its format number. O(partitions), some 3 µs each."""
    return json.dumps(status_to_dict(status), separators=(",", ":"), ensure_ascii=False).encode()


def status_to_dict(status: StatusDocument) -> dict[str, Any]:
    """What the JSON holds. O(partitions), some 1 µs each."""
    observed = status.observed
    facts = {
        "name": observed.name,
        "role": observed.role,
        "version": observed.version,
        "pid": observed.pid,
        "now_ms": observed.now_ms,
        "uptime_s": round(observed.uptime_s, 3),
        "catalog_version": observed.catalog_version,
        "log": None if observed.log is None else asdict(observed.log),
        "log_place": observed.log_place,
        "log_server": None if observed.log_server is None else asdict(observed.log_server),
        "disk": None if observed.disk is None else asdict(observed.disk),
        "memory_bytes": observed.memory_bytes,
        "connections": None if observed.connections is None else asdict(observed.connections),
        "certificates": [asdict(each) for each in observed.certificates],
        "nodes": [asdict(each) for each in observed.nodes],
        "partitions": _partitions(observed.partitions),
    }
    return {
        "format": STATUS_FORMAT,
        "ready": status.ready,
        "well": not status.troubles,
        "first": status.first,
        "troubles": [asdict(each) for each in status.troubles],
        **facts,
    }


def _partitions(partitions: Sequence[PartitionStatus]) -> list[dict[str, object]]:
    # Written out: `asdict` takes ten times as long, and there may be thousands.
    return [
        {
            "table": each.table,
            "partition": each.partition,
            "state": each.state,
            "first": each.first,
            "last": each.last,
            "applied": each.applied,
            "lag_records": each.lag_records,
            "lag_s": each.lag_s,
            "reason": each.reason,
            "ready": each.ready,
            "wanted": each.wanted,
            "proven": each.proven,
            "differs": each.differs,
            **({"audits": [audit._asdict() for audit in each.audits]} if each.audits else {}),
        }
        for each in partitions
    ]
