"""A session that is compared with the log: how much of one request."""

from __future__ import annotations

from typing import Any

import pytest

from log_tier.model.errors import LimitExceeded
from log_tier.model.identifiers import Partition, PartitionId, TableId
from router.admin.audits.audit_acknowledged import RUNS_MAX, audit_acknowledged
from router.proto import admin_pb2 as pb

HERE = PartitionId(TableId("AAECAwQFBgcICQoLDA0ODw"), Partition(0))


async def test_more_runs_than_a_request_may_have_are_refused_and_no_log_is_read() -> None:
    log: Any = None
    elsewhere = [pb.AdminAcknowledged(table_id=HERE.table, partition=1)] * RUNS_MAX
    assert await audit_acknowledged("orders", log, HERE, elsewhere) == []
    with pytest.raises(LimitExceeded, match="9,001 runs"):
        await audit_acknowledged("orders", log, HERE, [*elsewhere, elsewhere[0]])
