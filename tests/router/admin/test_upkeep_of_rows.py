"""The log of a table of rows: trimmed below a snapshot like any other, and not compacted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kit.cluster.situations import seen, with_nodes, with_snapshot, with_table
from kit.flight_rows import FLIGHTS

from log_tier.model.errors import CommandRejected
from log_tier.model.identifiers import Offset
from log_tier.model.log import Bounds
from router.admin.planners.upkeep import plan_compact, plan_trim


def test_the_log_of_rows_is_trimmed_and_not_compacted() -> None:
    """A record that does not fit would cover the row before it, which is still there."""
    cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1 n2", "n2 n3", "n3 n1"])
    table = cluster.find("flights")
    cluster = with_snapshot(cluster, table, 0, 200)
    cluster = cluster.with_table(replace(table, definition=FLIGHTS))
    bounds = {table.id: [Bounds(Offset(0), Offset(250))] * 3}
    with pytest.raises(CommandRejected, match=r"do not fit its definition change nothing.*admin trim flights"):
        plan_compact(seen(cluster), bounds, table="flights", partition=0)
    assert plan_trim(seen(cluster), bounds, table="flights", partition=0).steps
