"""`duramen audit data TABLE --export URL`: each partition of each export, for people and for programs."""

from __future__ import annotations

from typing import Any

from duramen.cli.spark.bulk import absolute
from duramen.cli.spark.spark_access import spark_access
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.text import shown_key
from log_tier.model.identifiers import Partition

__all__ = ["say_export_audit"]


def say_export_audit(
    table: str, partition: int | None, url: str, *, snapshots: str, at: str, timeout: float, json: bool
) -> list[Any]:
    """Print a line for each partition of each export at `url`; return their `PartAudit`s. Raises as `audit_exports`."""
    from spark_bulk.runtime.requirements import check_packages

    check_packages()
    from spark_bulk.export.audit import audit_exports
    from spark_bulk.source.model.cluster_login import ClusterLogin

    found: list[Any] = []
    for each in audit_exports(
        ClusterLogin.of(**spark_access(at)),
        table,
        absolute(url),
        partition=None if partition is None else Partition(partition),
        snapshots=snapshots and absolute(snapshots),
        timeout_s=timeout,
    ):
        found.append(each)
        if json:
            say_json(_document(each, table), flush=True)
        else:
            say(_line(each, table))
            if each.keys:
                say(f"  keys that differ: {', '.join(map(shown_key, each.keys))}")
    return found


def _line(each: Any, table: str) -> str:
    """`orders/3 000007-9f3c up to offset 812 exported 81,204 files 81,204 held 81,204`, and what is not equal."""
    counts = f"exported {each.said.rows:,} files {_rows(each.files)} held {_rows(each.held)}"
    verdict = "" if each.verdict == "equal" else f"  {each.verdict}"
    reason = f": {each.reason}" if each.reason else ""
    changes = " changes" if each.export.kind == "changes" else ""
    return f"{table}/{each.partition} {each.export.folder}{changes} up to offset {each.until} {counts}{verdict}{reason}"


def _rows(count: Any) -> str:
    return "–" if count is None else f"{count.rows:,}"


def _document(each: Any, table: str) -> dict[str, Any]:
    return {
        "table": table,
        "partition": each.partition,
        "export": each.export.folder,
        "kind": each.export.kind,
        "after": each.export.after[each.partition],
        "until": each.until,
        "verdict": each.verdict,
        "reason": each.reason,
        "exported": _counted(each.said, checked=each.checked),
        "files": _counted(each.files),
        "held": _counted(each.held),
        "source": each.source,
        "keys": [shown_key(key) for key in each.keys],
    }


def _counted(count: Any, *, checked: bool = True) -> dict[str, Any] | None:
    if count is None:
        return None
    return {"rows": count.rows, "checksum": f"{count.checksum:016x}" if checked else None}
