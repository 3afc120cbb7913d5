"""What the console shows of a server, for one caller, and how it differs from what it was a second ago. Pure.

It is the status document with the trends of the last seconds. Partitions are rows of one table, because a thousand of
them must be a small message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from duramen.server.console.look import Look, Trends
from duramen.server.console.node_facts import NodeFacts
from duramen.server.sight.observed import AuditSeen, PartitionStatus
from duramen.server.sight.status_document import status_of_server, status_to_dict

__all__ = ["COLUMNS", "EVENTS_FORMAT", "NightDocument", "change_to_json", "night_document", "whole_to_json"]

EVENTS_FORMAT: Final = 1

COLUMNS: Final = (
    "table", "partition", "state", "reason", "ready", "wanted", "last", "applied", "lag_s", "written_per_s",
    "applied_per_s", "lag_per_s", "level_in_s", "state_since_s", "proven", "differs", "audits",
)  # fmt: skip

Row = tuple[Any, ...]

StateSince = Callable[[str, int], float | None]
"""The server's uptime at which a partition came into its state; None: not known."""


@dataclass(frozen=True, slots=True)
class NightDocument:
    """The document for one caller."""

    facts: Mapping[str, Any]
    """What the status document has, without its partitions, and the server's trends."""
    rows: Mapping[tuple[str, int], Row]
    """By table and partition, in the order of `COLUMNS`."""


def night_document(look: Look, since: StateSince, shows: Callable[[str], bool] | None = None) -> NightDocument:
    """The document for a caller to whom `shows` says which tables are shown; None: all. `look`: one with trends.

    O(partitions), some 5 µs each.
    """
    trends = look.trends
    assert trends is not None, f"look {look.number} was made while nobody watched"
    status = status_of_server(look.observed, shows)
    facts = status_to_dict(status)
    del facts["partitions"]
    facts |= {
        "nodes": [each | _node(look.nodes.get(each["node"])) for each in facts["nodes"]],
        "sync_p99_s": status.observed.sync_p99_s,
        "queue_age_s": status.observed.queue_age_s,
        "disk_full_in_s": _rounded(trends.disk_full_in_s),
        "log_rates": None
        if trends.log_rates is None
        else {k: round(v, 1) for k, v in trends.log_rates._asdict().items()},
    }
    rows = {(each.table, each.partition): _row(each, trends, since) for each in status.observed.partitions}
    return NightDocument(facts, rows)


def whole_to_json(document: NightDocument) -> bytes:
    """All of it. O(partitions), some 2 µs and 0.1 KiB each."""
    return _json(
        {
            "format": EVENTS_FORMAT,
            "facts": document.facts,
            "columns": COLUMNS,
            "rows": list(document.rows.values()),
        }
    )


def change_to_json(before: NightDocument, document: NightDocument) -> bytes:
    """What makes the document of the one before: facts and rows that differ, and the partitions that are not there any
    more. O(partitions).
    """
    return _json(
        {
            "facts": {name: value for name, value in document.facts.items() if before.facts.get(name) != value},
            "rows": [row for name, row in document.rows.items() if before.rows.get(name) != row],
            "gone": [name for name in before.rows if name not in document.rows],
        }
    )


def _row(each: PartitionStatus, trends: Trends, since: StateSince) -> Row:
    figures = trends.partitions[each.name]
    since_s = since(each.table, each.partition)
    return (
        each.table,
        each.partition,
        each.state,
        each.reason,
        each.ready,
        each.wanted,
        each.last,
        each.applied,
        each.lag_s,
        _rounded(figures.written_per_s),
        _rounded(figures.applied_per_s),
        _rounded(figures.lag_per_s) if each.lag_records else None,
        _rounded(figures.level_in_s) if each.lag_records else None,
        _rounded(since_s),
        each.proven,
        each.differs,
        [_audit(audit) for audit in each.audits],
    )


def _audit(audit: AuditSeen) -> tuple[str | int, ...]:
    """Where all is equal, no verdict, name or reason: there may be thousands."""
    known = (audit.tier, audit.rows, audit.checked_ms)
    return known if audit.verdict == "equal" else (*known, audit.verdict, f"{audit.name}: {audit.reason}")


def _node(facts: NodeFacts | None) -> dict[str, Any]:
    """What a node said of itself; everything is None where nobody asks nodes, or it never answered."""
    known = (NodeFacts() if facts is None else facts)._asdict()
    return known | {name: _rounded(known[name]) for name in ("alive_since_s", "answered_s")}


def _rounded(value: float | None) -> float | int | None:
    """To a tenth; whole numbers without their `.0`, of which there are thousands."""
    if value is None:
        return None
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
