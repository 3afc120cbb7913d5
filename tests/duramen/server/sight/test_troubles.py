"""What counts as wrong with a server, in which order, and whether the server is ready all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duramen.server.sight.observed import (
    AuditSeen,
    CertificateExpiry,
    DiskSpace,
    LogFacts,
    LogServerSeen,
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


def test_a_log_that_does_not_answer_is_not_the_fault_of_the_nodes() -> None:
    """A replica that has all that it heard of and is behind has not heard of the log for so long."""
    silent = partition("behind", applied=10, lag_s=19.0)
    observed = replace(NODE, partitions=(silent, partition("ready", 1), replace(silent, partition=2, lag_s=18.0)))
    assert kinds(observed) == [("log_silent", True)]
    (trouble,) = troubles_of(observed)
    assert trouble.what == "the log has not answered this server for 19 s: orders/0, orders/2 cannot be written"
    assert "start the log" in trouble.do
    (trouble,) = troubles_of(replace(observed, role="router"))
    assert (trouble.kind, trouble.blocks) == ("log_silent", False)
    assert trouble.what.startswith("the log has not answered the nodes for 19 s: orders/0, orders/2 ")
    both = replace(NODE, partitions=(silent, partition("behind", 1), partition("stopped", 2)))
    assert kinds(both) == [("log_silent", True), ("stopped", True), ("behind", True)]


GIB = 1 << 30


def with_disks(**free: int) -> Observed:
    """A router, and nodes with so much free of 100 GiB each."""
    nodes = (NodeSeen(node, "h:1", True, "", 0, bytes_, 100 * GIB) for node, bytes_ in free.items())
    return replace(ROUTER, nodes=tuple(nodes))


def test_a_router_names_the_nodes_whose_disks_are_full() -> None:
    """It said that all was well while no node could write anything."""
    (trouble,) = troubles_of(with_disks(n1=0, n2=50 * GIB, n3=0))
    assert (trouble.kind, trouble.blocks) == ("disk_full", False)
    assert trouble.what == "the disks of 2 of 3 nodes are full: n1, n3"
    assert "make room on the disk of n1" in trouble.do
    (trouble,) = troubles_of(with_disks(n1=50 * GIB, n2=2 * GIB, n3=GIB))
    assert (trouble.kind, trouble.blocks) == ("disk_nearly_full", False)
    assert trouble.what == "the disks of 2 of 3 nodes are nearly full: n3, n2 (1,024 MiB free, 1.0%)"
    assert kinds(with_disks(n1=0, n2=GIB)) == [("disk_full", False), ("disk_nearly_full", False)]
    assert troubles_of(with_disks(n1=20 * GIB)) == ()


def test_the_disk_of_a_lost_node_and_one_that_said_nothing_yet_are_not_known() -> None:
    lost = NodeSeen("n1", "h:1", False, "silent", 0, 0, 100 * GIB)
    silent = NodeSeen("n2", "h:2", True, "")
    assert kinds(replace(ROUTER, nodes=(lost, silent))) == [("node_lost", False)]


HOUR_S = 3600


def seen(**skews_s: int) -> tuple[NodeSeen, ...]:
    return tuple(NodeSeen(node, "h:1", alive=True, reason="", clock_skew_s=skew) for node, skew in skews_s.items())


@pytest.mark.parametrize(
    ("nodes", "what"),
    [
        (seen(n1=2, n2=HOUR_S, n3=-3), ["the clock of n2 is 1 h ahead of the others"]),
        (seen(n1=2, n2=-HOUR_S, n3=-3), ["the clock of n2 is 1 h behind the others"]),
        (
            seen(n1=0, n2=HOUR_S, n3=-70),
            ["the clocks of n2 (1 h ahead) and n3 (70 s behind) are not those of the others"],
        ),
        (
            seen(n1=-HOUR_S, n2=-HOUR_S - 3, n3=-HOUR_S + 4),
            ["the clock of this server, router, is 1 h ahead of the others"],
        ),
        (seen(n1=90), ["the clocks of n1 and of this server, router, differ by 90 s"]),
        (seen(n1=90, n2=90), ["the clock of this server, router, is 90 s behind the others"]),
        (seen(n1=4, n2=-4, n3=0), []),
        ((), []),
    ],
)  # fmt: skip
def test_a_clock_that_is_wrong_is_named_by_those_of_the_others(nodes: tuple[NodeSeen, ...], what: list[str]) -> None:
    observed = replace(ROUTER, nodes=nodes)
    troubles = troubles_of(observed)
    assert [(each.kind, each.what, each.blocks) for each in troubles] == [("clock_wrong", each, False) for each in what]
    assert all("NTP" in each.do for each in troubles)
    assert status_of_server(observed).ready


def with_log(skew_s: int = 0, free: int = 50 * GIB, stopped: str | None = None, *, alive: bool = True) -> Observed:
    server = LogServerSeen("log:7071", alive, "" if alive else "silent", skew_s, free, 100 * GIB, stopped)
    return replace(ROUTER, nodes=seen(n1=0, n2=0), log_server=server)


@pytest.mark.parametrize(
    ("observed", "kind", "what"),
    [
        (with_log(HOUR_S), "clock_wrong", "the clock of the log's server is 1 h ahead of the others"),
        (with_log(free=0), "disk_full", "the disk of the log's server at log:7071 is full: nothing can be written"),
        (
            with_log(free=GIB),
            "disk_nearly_full",
            "the disk of the log's server at log:7071 has 1,024 MiB free, 1.0% of it",
        ),
        (
            with_log(stopped="the disk failed a sync"),
            "log_stopped",
            "the log's server at log:7071 acknowledges nothing more: the disk failed a sync",
        ),
    ],
)
def test_the_logs_server_is_seen_as_nodes_are(observed: Observed, kind: str, what: str) -> None:
    (trouble,) = troubles_of(observed)
    assert (trouble.kind, trouble.what, trouble.blocks) == (kind, what, False)
    here = replace(NODE, log_server=observed.log_server)
    assert kinds(here) == [(kind, False)], "a node sees the same"


def test_what_a_silent_log_server_said_last_is_no_trouble() -> None:
    assert troubles_of(with_log(HOUR_S, 0, "the disk failed a sync", alive=False)) == ()


def test_the_last_word_of_a_node_that_is_lost_says_nothing_of_its_clock() -> None:
    """Its clock went on since."""
    lost = replace(seen(n2=-HOUR_S)[0], alive=False, reason="silent")
    assert kinds(replace(ROUTER, nodes=(*seen(n1=0, n3=0), lost))) == [("node_lost", False)]


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


@pytest.mark.parametrize("alive", [True, False])
@pytest.mark.parametrize(
    ("left_ms", "kind", "what"),
    [
        (-1, "certificate_expired", "the certificate of log, at the log's server, has expired: handshakes fail"),
        (DAY_MS, "certificate_expires", "the certificate of log, at the log's server, expires in 1.0 days"),
    ],
)
def test_certificates_of_the_logs_server(left_ms: int, kind: str, what: str, alive: bool) -> None:
    """Also while it is silent: it may be so because of them."""
    ca, own = CertificateExpiry("ca", "ca", NOW_MS + DAY_MS), CertificateExpiry("log", "server", NOW_MS + left_ms)
    server = LogServerSeen("log:7071", alive, "", certificates=(ca, own))
    found = troubles_of(replace(NODE, certificates=(ca,), log_server=server))
    assert (kind, what) in [(each.kind, each.what) for each in found]
    assert len(found) == 2, "of the CA that both have there is one"
    assert "`duramen cert rotate log`" in found[0].do + found[1].do


def test_one_that_lags_and_several_are_named_once() -> None:
    one = replace(partition("behind", 1), last=1, applied=0, lag_s=65.0)
    (trouble,) = troubles_of(replace(NODE, partitions=(one,)))
    assert trouble.what == "orders/1 lags the log by 1 record and 65 s"
    other = replace(partition("behind", 2), last=12_000, applied=0, lag_s=70.0)
    (trouble,) = troubles_of(replace(NODE, partitions=(one, other)))
    assert trouble.what == "orders/1, orders/2 lag the log, orders/2 by 12,000 records and 70 s"
