"""Requests as texts of the audit: what is shown, and that nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from log_tier.audit.audit_event import TEXT_MAX
from log_tier.audit.request_text import request_text
from router.proto import admin_pb2, kv_pb2, tables_pb2


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (admin_pb2.AdminNodesRequest(), ""),
        (
            admin_pb2.AdminStartRequest(dry_run=True, drain=admin_pb2.AdminDrain(node="n1")),
            "dry_run=True drain node=n1",
        ),
        (
            admin_pb2.AdminStartRequest(set_replicas=admin_pb2.AdminSetReplicas(table="orders", replicas=2)),
            "set_replicas table=orders replicas=2",
        ),
        (
            admin_pb2.AdminStartRequest(
                stage=admin_pb2.AdminStage(table="orders", url="s3://AKIA:hidden@bucket/x?secret_key=hidden")
            ),
            "stage table=orders url=s3://AKIA:***@bucket/x?secret_key=***",
        ),
        (tables_pb2.CreateTableRequest(name="t", partitions=4), "name=t partitions=4"),
        # A value is no argument.
        (kv_pb2.KVPutRequest(table="t", key=b"hidden", value=b"hidden"), "table=t"),
    ],
    ids=str,
)
def test_arguments(request_: Any, text: str) -> None:
    assert request_text(request_) == text


def test_a_text_is_short() -> None:
    assert len(request_text(tables_pb2.CreateTableRequest(name="x" * 10_000, over="y" * 10_000))) == TEXT_MAX
