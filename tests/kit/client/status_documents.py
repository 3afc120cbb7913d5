"""Status documents as a server sends them, with the fields that a test is about."""

from __future__ import annotations

from typing import Any

__all__ = ["disk", "document", "log", "partition"]


def partition(number: int, *, last: int, applied: int, table: str = "orders", **fields: Any) -> dict[str, Any]:
    return {
        "table": table, "partition": number, "state": "ready", "first": 0, "last": last, "applied": applied,
        "lag_records": max(0, last - applied), "lag_s": 0.0, "reason": "", "ready": 1, "wanted": 1, **fields,
    }  # fmt: skip


def document(*partitions: dict[str, Any], uptime_s: float = 100.0, pid: int = 7, **fields: Any) -> dict[str, Any]:
    return {
        "name": "n1", "role": "single", "version": "1", "pid": pid, "now_ms": 0, "uptime_s": uptime_s, "ready": True,
        "troubles": [], "first": "", "nodes": [], "log": None, "disk": None, "memory_bytes": None,
        "connections": None, "partitions": list(partitions), **fields,
    }  # fmt: skip


def log(appends: int, size: int, syncs: int) -> dict[str, Any]:
    return {"appends": appends, "bytes": size, "syncs": syncs, "queued_batches": 0, "queued_bytes": 0}


def disk(free: int) -> dict[str, Any]:
    return {"folder": "/data", "free_bytes": free, "full_bytes": 1 << 40}
