"""The status document: what it holds, and what of it a user sees."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from duramen.server.sight.observed import AuditSeen, DiskSpace, LogFacts, Observed, PartitionStatus
from duramen.server.sight.status_document import STATUS_FORMAT, status_of_server, status_to_json

LOG = LogFacts(queued_batches=2, queued_bytes=99, appends=7, bytes=700, commits=3, syncs=3, stopped=None)
WELL = Observed(
    role="node",
    name="n1",
    version="1.2.3",
    pid=42,
    now_ms=1_700_000_000_000,
    uptime_s=12.34567,
    catalog_version=9,
    partitions=(
        PartitionStatus("orders", 0, "ready", first=3, last=20, applied=20, lag_s=0.0, ready=1),
        PartitionStatus("secret", 0, "ready", first=None, last=5, applied=5, lag_s=0.0, ready=1),
    ),
    log=LOG,
    disk=DiskSpace("/data", 600 << 30, 1000 << 30),
    memory_bytes=1 << 20,
)


def document(observed: Observed, **options: Any) -> dict[str, Any]:
    """The JSON of what was observed, read again."""
    text = status_to_json(status_of_server(observed, **options))
    assert b"\n" not in text
    read: dict[str, Any] = json.loads(text)
    return read


def stopped(name: str) -> Observed:
    """The same server, where the partitions of one table have stopped."""
    return replace(
        WELL,
        partitions=tuple(
            replace(each, state="stopped", reason=f"the index of {name} is damaged", ready=0)
            if each.table == name
            else each
            for each in WELL.partitions
        ),
    )


def test_a_server_that_is_well() -> None:
    found = document(WELL)
    assert (found["format"], found["ready"], found["well"]) == (STATUS_FORMAT, True, True)
    assert (found["first"], found["troubles"]) == ("", [])
    assert (found["name"], found["role"], found["version"], found["uptime_s"]) == ("n1", "node", "1.2.3", 12.346)
    assert found["log"] == {
        "queued_batches": 2, "queued_bytes": 99, "appends": 7, "bytes": 700, "commits": 3, "syncs": 3, "stopped": None,
        "queue_age_s": 0.0, "damages": 0, "sync_p99_s": None,
    }  # fmt: skip
    assert found["disk"] == {"folder": "/data", "free_bytes": 600 << 30, "full_bytes": 1000 << 30}
    assert found["partitions"][0] == {
        "table": "orders", "partition": 0, "state": "ready", "first": 3, "last": 20, "applied": 20,
        "lag_records": 0, "lag_s": 0.0, "reason": "", "ready": 1, "wanted": 1, "proven": -1, "differs": "",
    }  # fmt: skip


def test_what_audits_found_is_a_field_of_the_partitions_that_have_some() -> None:
    audit = AuditSeen("export", "s3://lake/orders", 81_204, 90_311, "equal", "", 1_700_000_000_000)
    audited = replace(WELL.partitions[0], audits=(audit,))
    found = document(replace(WELL, partitions=(audited, *WELL.partitions[1:])))
    assert found["partitions"][0]["audits"] == [
        {
            "tier": "export", "name": "s3://lake/orders", "rows": 81_204, "until": 90_311, "verdict": "equal",
            "reason": "", "checked_ms": 1_700_000_000_000,
        }
    ]  # fmt: skip
    assert "audits" not in found["partitions"][1]


def test_what_is_not_known_is_null() -> None:
    found = document(replace(WELL, log=None, disk=None, memory_bytes=None))
    assert found["partitions"][1]["first"] is None
    assert (found["log"], found["disk"], found["memory_bytes"], found["connections"]) == (None, None, None, None)


def test_lag_in_records_and_seconds() -> None:
    late = PartitionStatus("orders", 1, "behind", first=0, last=120, applied=20, lag_s=7.5)
    found = document(replace(WELL, partitions=(late,)))
    assert (found["partitions"][0]["lag_records"], found["partitions"][0]["lag_s"]) == (100, 7.5)
    assert not found["ready"]
    assert "orders/1 lags the log by 100 records and 8 s" in found["troubles"][0]["what"]


def test_a_user_sees_the_tables_that_are_shown() -> None:
    found = document(WELL, shows=lambda table: table == "orders")
    assert [each["table"] for each in found["partitions"]] == ["orders"]
    assert found["well"]


def test_a_trouble_of_a_hidden_table_is_not_named_and_not_concealed() -> None:
    broken = stopped("secret")
    assert "secret/0 stopped here" in document(broken)["troubles"][0]["what"]
    text = status_to_json(status_of_server(broken, lambda table: table == "orders")).decode()
    found = json.loads(text)
    assert "secret" not in text
    assert (found["ready"], found["well"], found["troubles"][0]["kind"]) == (False, False, "hidden")
    own = document(stopped("orders"), shows=lambda table: table == "orders")
    assert (own["ready"], own["troubles"][0]["kind"], len(own["troubles"])) == (False, "stopped", 1)


def test_hostile_names_stay_text() -> None:
    odd = 'x"},{"ready":true<script>\u2028\n'
    found = document(replace(WELL, partitions=(replace(stopped("orders").partitions[0], reason=odd),)))
    assert found["partitions"][0]["reason"] == odd
    assert not found["ready"]
