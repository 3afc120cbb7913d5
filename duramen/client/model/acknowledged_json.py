"""What a session was acknowledged, as a document that can be kept and compared with the log later. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId, table_id_to_bytes
from log_tier.tally.acknowledged import AckRun

__all__ = ["acknowledged_to_json", "parse_acknowledged"]

_FORMAT: Final = "duramen-acknowledged"
_VERSION: Final = 1
_NUMBERS: Final = ("partition", "minute", "first", "last", "sequence", "records")


def acknowledged_to_json(runs: Iterable[AckRun]) -> str:
    """One line of JSON; docs/FORMATS.md describes it."""
    rows = [
        {
            "table": run.partition.table,
            "partition": run.partition.partition,
            "producer": f"{run.producer:016x}",
            **{name: getattr(run, name) for name in _NUMBERS[1:]},
            "checksum": f"{run.checksum:016x}",
        }
        for run in runs
    ]
    return json.dumps({"format": _FORMAT, "version": _VERSION, "runs": rows}, separators=(",", ":"))


def parse_acknowledged(text: str) -> list[AckRun]:
    """Read it back. Raises `InvalidRequest` for what is no such document, or one of another version."""
    try:
        document: Any = json.loads(text)
        if document["format"] != _FORMAT or document["version"] != _VERSION:
            raise ValueError(f"its format is {document['format']!r}, version {document['version']!r}")
        return [_run_of(row) for row in document["runs"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidRequest(f"this is not what `Database.acknowledged()` of this version returns: {error}") from error


def _run_of(row: Any) -> AckRun:
    for name in _NUMBERS:
        if type(row[name]) is not int or not 0 <= row[name] < 1 << 63:
            raise ValueError(f"{name} is {row[name]!r}")
    table = TableId(row["table"])
    table_id_to_bytes(table)
    return AckRun(
        PartitionId(table, Partition(row["partition"])),
        int(row["producer"], 16),
        row["minute"],
        Offset(row["first"]),
        Offset(row["last"]),
        row["sequence"],
        row["records"],
        int(row["checksum"], 16),
    )
