"""What counts as wrong with a server, in which order, and whether the server is ready all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duramen.server.sight.observed import (
    AuditSeen,
    CertificateExpiry,
    DiskSpace,
    LogFacts,
    NodeSeen,
    Observed,
    PartitionStatus,
)
from duramen.server.sight.status_document import status_of_server
from duramen.server.sight.troubles import troubles_of

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
NODE = Observed("node", "n1", "1", 1, NOW_MS, 1.0, 5)
ROUTER = replace(NODE, role="router", name="router")
LOG = LogFacts(0, 0, 0, 0, 0, 0, stopped="the disk failed a sync")


def partition(state: str, number: int = 0, **more: object) -> PartitionStatus:
    made = PartitionStatus("orders", number, state, first=0, last=10, applied=4, lag_s=3.0)
    return replace(made, **more)  # type: ignore[arg-type]


def kinds(observed: Observed) -> list[tuple[str, bool]]:
    return [(each.kind, each.blocks) for each in troubles_of(observed)]


def test_a_server_without_tables_is_well() -> None:
    for observed in (NODE, ROUTER):
        assert troubles_of(observed) == ()
        assert status_of_server(observed).first == ""


def test_the_most_urgent_comes_first() -> None:
    observed = replace(
        NODE,
        log=LOG,
        partitions=(partition("behind"), partition("stopped", 1), partition("replaying", 2)),
        disk=DiskSpace("/data", 1 << 30, 100 << 30),
        certificates=(CertificateExpiry("server", "server", NOW_MS + DAY_MS),),
    )
    assert kinds(observed) == [
        ("log_stopped", True),
        ("stopped", True),
        ("behind", True),
        ("opening", True),
        ("disk_nearly_full", False),
        ("certificate_expires", False),
    ]
    status = status_of_server(observed)
    assert not status.ready
    assert "restart this server" in status.first


@pytest.mark.parametrize("role", [NODE, ROUTER])
def test_an_audit_that_found_a_difference_is_named_and_served(role: Observed) -> None:
    equal = AuditSeen("export", "s3://lake/new", 7, 6, "equal", "", NOW_MS)
    wrong = equal._replace(name="s3://lake/orders", verdict="different", reason="the files hold 6 rows, not 7")
    good, bad = (
        partition("ready", applied=10, audits=(equal,)),
        partition("ready", 3, applied=10, audits=(equal, wrong)),
    )
    observed = replace(role, partitions=(good, bad))
    (trouble,) = troubles_of(observed)
    assert (trouble.kind, trouble.blocks) == ("audit_different", False)
    assert "orders/3: an audit found a difference (export s3://lake/orders: the files hold 6 rows" in trouble.what
    assert "duramen audit data orders" in trouble.do
    assert troubles_of(replace(role, partitions=(good,))) == ()
    assert status_of_server(observed).ready


@pytest.mark.parametrize("role", [NODE, ROUTER])
def test_what_is_not_what_the_log_holds_is_named_and_served(role: Observed) -> None:
    wrong = partition("ready", 3, applied=10, differs="n2: offsets 17 to 17 are in the log and were not folded here")
    observed = replace(role, partitions=(partition("ready", applied=10), wrong))
    (trouble,) = troubles_of(observed)
    assert (trouble.kind, trouble.blocks) == ("different", False)
    assert trouble.what.startswith("orders/3: ")
    assert "offsets 17 to 17" in trouble.what
    assert "duramen audit data orders" in trouble.do


@pytest.mark.parametrize("state", ["bootstrapping", "replaying", "behind", "stopped"])
def test_a_node_is_ready_when_every_replica_is(state: str) -> None:
    assert status_of_server(replace(NODE, partitions=(partition("ready"),))).ready
    observed = replace(NODE, partitions=(partition("ready"), partition(state, 1)))
    assert not status_of_server(observed).ready
    assert "orders/1" in troubles_of(observed)[0].what


def test_a_router_with_lost_replicas_goes_on_and_says_so() -> None:
    observed = replace(
        ROUTER,
        partitions=(
            partition("lost", reason="none of its nodes answers"),
            partition("ready", 1),
            partition("behind", 2),
        ),
        nodes=(NodeSeen("n1", "h:1", alive=True, reason=""), NodeSeen("n2", "h:2", alive=False, reason="silent")),
    )
    assert kinds(observed) == [("unreadable", False), ("node_lost", False), ("behind", False)]
    assert status_of_server(observed).ready
    assert troubles_of(observed)[1].what == "1 of 2 nodes do not answer: n2 (silent)"
    assert "orders/0: no replica can be read" in troubles_of(observed)[0].what


def test_many_partitions_are_counted_and_three_are_named() -> None:
    what = troubles_of(replace(NODE, partitions=tuple(partition("stopped", each) for each in range(1000))))[0].what
    assert "orders/0, orders/1, orders/2 and 997 more" in what


@pytest.mark.parametrize(
    ("free", "full", "kind"),
    [
        (0, 100 << 30, ["disk_full"]),
        (1 << 30, 100 << 30, ["disk_nearly_full"]),
        (20 << 30, 10_000 << 30, []),  # 0.2 % of a large disk
        (1 << 30, 2 << 30, []),  # half of a small one
    ],
)
def test_disks(free: int, full: int, kind: list[str]) -> None:
    assert [each for each, _ in kinds(replace(NODE, disk=DiskSpace("/data", free, full)))] == kind


@pytest.mark.parametrize(
    ("left_ms", "kind"),
    [(-1, ["certificate_expired"]), (0, ["certificate_expired"]), (1, ["certificate_expires"]), (8 * DAY_MS, [])],
)
def test_certificates(left_ms: int, kind: list[str]) -> None:
    for name, command in (("server", "`duramen cert rotate server`"), ("ca", "`duramen cert rotate --ca`")):
        expiry = CertificateExpiry(name, name, NOW_MS + left_ms)
        found = troubles_of(replace(NODE, certificates=(expiry,)))
        assert [each.kind for each in found] == kind
        assert all(command in each.do for each in found)
