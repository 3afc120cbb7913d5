"""A check that knows where the log is reads it there, and holds what the servers gave of it against that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kit.client.checked import checked

from duramen.verification.checker import check_history
from duramen.verification.observations import differences
from duramen.verification.scratch_log import scratch_log
from log_tier.model.errors import InvalidRequest


async def test_a_server_that_gives_other_bytes_is_named(tmp_path: Path) -> None:
    history, violations = await checked(tmp_path, reads_log=True)
    assert violations == []
    compared = [call for call in history.calls if call.kind == "served"]  # twice where a call ended late
    assert [call.reply["differences"] for call in compared] == [[]] * len(compared)
    served = compared[0]
    assert any(record.void for record in history.log), "what is void was taken from the servers"

    changed = [replace(history.log[0], value="something else"), *history.log[1:-1]]
    served.reply["differences"] = differences(changed, history.log)
    named = check_history(history)
    assert [each.invariant for each in named] == ["I3", "I3"]
    assert "something else" in named[0].what
    assert "a server gave None" in named[1].what


async def test_a_log_that_has_no_namespaces_is_not_used() -> None:
    with pytest.raises(InvalidRequest, match="kafka:// URL, not grpc://"):
        async with scratch_log("grpc://127.0.0.1:1"):
            pass
