"""The recipe of the runbook about what routers move by themselves."""

from __future__ import annotations

from kit.cluster.cluster_process import ClusterProcess
from kit.cluster.recipes import follow


def test_what_routers_move_by_themselves(cluster: ClusterProcess) -> None:
    plan, _, off, on = follow(cluster, "What routers move by themselves")
    assert "no node is full, slow or hot: there is nothing to relieve" in plan
    assert "routers begin no job of the kind relieve any more" in off
    assert "routers begin jobs of the kind relieve" in on
    assert "nothing has to be done" not in off + on
    cluster.run("admin", "automate", "heal", "--off")
    (found,) = cluster.rows("admin", "plan")
    assert (found["off"], found["relief"]["off"]) == (True, False)
    cluster.run("admin", "automate", "heal")
