"""The blocking face's atomic batch: its calls can be chained, and `commit` waits."""

from __future__ import annotations

from pathlib import Path

import pytest

import duramen
from log_tier.model.errors import ConditionFailed


def test_chained_calls_end_in_offsets(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "db") as database:
        table = database.create_table("t", partitions=4)
        done = table.batch().put(b"{u}a", b"1").update(b"{u}n", add=5).delete(b"{u}b").commit()
        assert [one.offset for one in done] == [0, 1, 2]
        assert done[1].value == 5
        assert table.get(b"{u}a") == b"1"
        refused = table.batch().put(b"{u}a", b"2").put(b"{u}n", b"0", if_absent=True)
        assert len(refused) == 2
        with pytest.raises(ConditionFailed):
            refused.commit()
        assert table.get(b"{u}a") == b"1"
