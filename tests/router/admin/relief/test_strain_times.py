"""For how long nodes have too much: without a break, as one process has seen it, and anew after a relief."""

from __future__ import annotations

from dataclasses import replace

from kit.cluster.situations import folded, seen, with_nodes, with_table

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import AbortJob, StartJob
from router.admin.planners.strains import Strain
from router.admin.relief.decision import decide_relief
from router.admin.relief.strain_times import StrainTimes

FULL = Strain("n1", "full", "has 1 MiB of its disk free, 1%")
NODES = with_nodes("n1", "n2", "n3")


def test_time_passes_as_long_as_a_node_has_too_much() -> None:
    times = StrainTimes(look_s=10.0)
    times.look(NODES, [FULL], 1000.0)
    assert times.seconds("n1") == 0.0
    times.look(NODES, [FULL], 1010.0)
    times.look(NODES, [FULL._replace(kind="slow")], 1020.0)
    assert (times.seconds("n1"), times.seconds("n2")) == (20.0, 0.0)
    times.look(NODES, [], 1030.0)
    times.look(NODES, [FULL], 1040.0)
    assert times.seconds("n1") == 0.0


def test_what_a_process_slept_through_was_not_seen() -> None:
    times = StrainTimes(look_s=10.0)
    times.look(NODES, [FULL], 0.0)
    times.look(NODES, [FULL], 5000.0)
    assert times.seconds("n1") == 30.0
    times.look(NODES, [FULL], 4000.0)
    assert times.seconds("n1") == 30.0


def test_it_begins_anew_when_a_job_that_moves_replicas_is_over() -> None:
    cluster = full_node()
    times = StrainTimes(look_s=10.0)
    times.look(cluster, [FULL], 0.0)
    times.look(cluster, [FULL], 10.0)
    situation = seen(cluster, sizes={0: 30})
    disk = replace(situation.nodes["n1"], disk_free=1, disk_used=99)
    decision = decide_relief(replace(situation, nodes={**situation.nodes, "n1": disk}), [FULL], ["n1"])
    assert decision.command is not None
    begun = folded(cluster, decision.command)
    times.look(begun, [FULL, FULL._replace(node="n2")], 20.0)
    assert times.seconds("n1") == 20.0
    over = folded(begun, AbortJob(max(begun.jobs)))
    times.look(over, [FULL, FULL._replace(node="n2")], 30.0)
    assert (times.seconds("n1"), times.seconds("n2")) == (0.0, 0.0), "n2 may have got what n1 had"
    times.look(over, [FULL], 40.0)
    assert times.seconds("n1") == 10.0
    snapshots = folded(over, StartJob("snapshot", "flights", ()))
    times.look(snapshots, [FULL], 50.0)
    assert times.seconds("n1") == 20.0


def full_node() -> ClusterMap:
    return with_table(NODES, ["n1 n2", "n1 n3"])
