"""What a server's settings choose for the audit."""

from __future__ import annotations

import pytest

from log_tier.audit.audit_settings import AuditSettings
from log_tier.model.errors import InvalidRequest


def test_tables_are_chosen_by_name_and_by_prefix() -> None:
    settings = AuditSettings.parse(["orders:read,write", "ships*:write"])
    chosen = {
        (right, table)
        for right in ("read", "write", "admin")
        for table in ("orders", "orders2", "ships", "ships_old", "ship", "")
        if settings.is_chosen(right, table)
    }
    assert chosen == {("read", "orders"), ("write", "orders"), ("write", "ships"), ("write", "ships_old")}
    assert settings.chooses
    assert AuditSettings.parse(["*:read"]).is_chosen("read", "anything")
    assert not AuditSettings.parse().chooses


@pytest.mark.parametrize("text", ["orders", "orders:", "orders:admin", ":read", "a b:read", "or*ders:read", "o:read,"])
def test_what_is_no_choice_is_named(text: str) -> None:
    with pytest.raises(InvalidRequest, match="no choice of what is audited"):
        AuditSettings.parse([text])


@pytest.mark.parametrize("days", [0, -1, 1e9, float("nan")])
def test_rows_stay_for_a_time(days: float) -> None:
    with pytest.raises(InvalidRequest):
        AuditSettings.parse(days=days)
    assert AuditSettings.parse(days=0.5).retention_ms == 43_200_000
