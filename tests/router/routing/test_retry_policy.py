"""Which errors send a part to another replica: every class of the tree has its answer."""

from __future__ import annotations

import pytest

from log_tier.model.errors import ERRORS, VersionMissing
from router.routing.retry_policy import worth_failover

STAYS = {
    "invalid_request", "invalid_name", "invalid_key", "invalid_value", "partition_mismatch", "invalid_token",
    "invalid_row", "invalid_schema", "row_rejected", "row_absent", "field_absent", "unique_violation",
    "token_ahead", "batch_refused", "limit_exceeded", "database_closed", "port_in_use", "table_not_found",
    "table_exists", "rejected", "condition_failed", "not_a_number", "number_overflow", "result_too_large",
    "command_rejected", "write_unknown", "offset_passed", "access_denied", "database_forked",
    "unauthenticated", "permission_denied", "location_refused", "index_building", "history_gone",
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_every_error(code: str) -> None:
    assert worth_failover(ERRORS[code]("why")) == (code not in STAYS)


def test_a_version_that_has_ended_is_nowhere() -> None:
    assert not worth_failover(VersionMissing("version 2 is gone", version=2, ended=1))
