"""The gate by maps that the catalog's fold made."""

from __future__ import annotations

import pytest
from kit.flight_rows import FLIGHTS, flight_key

from log_tier.access.demands import (
    ANY_USER,
    CLUSTER_ADMIN,
    SERVERS_ONLY,
    Demand,
    KeyDemand,
    PrefixDemand,
    RangeDemand,
)
from log_tier.access.gate import NOBODY, Gate
from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.catalog.commands import Command, RegisterNode
from log_tier.model.errors import PermissionDenied, Unauthenticated
from log_tier.model.identifiers import NOTHING, Offset, table_id_from_bytes
from log_tier.trust.grants import Right
from log_tier.trust.trust_commands import AddToken, AddUser, GrantRights, RemoveUser, RevokeRights, RevokeToken

SEEN = Offset(NOTHING)
DEMANDS: tuple[Demand, ...] = (
    KeyDemand(Right.READ, "orders", (b"eu:1", b"eu:2")),
    PrefixDemand(Right.READ, "orders", b"eu:"),
    RangeDemand(Right.READ, "orders", b"eu:", b"eu;"),
)


def next_map(cluster: ClusterMap, command: Command) -> ClusterMap:
    offset = Offset(cluster.version + 1)
    cluster, (_, rejection) = fold_command(cluster, offset, 10, f"c{offset}", command)
    assert rejection == "", "the commands of these tests take effect"
    return cluster


def map_of(*commands: Command) -> ClusterMap:
    cluster = ClusterMap()
    for command in commands:
        cluster = next_map(cluster, command)
    return cluster


USERS = map_of(
    AddUser("root", SEEN, "", ("admin *",)),
    AddUser("alice", SEEN, "", ("read orders --key eu:",)),
    AddToken("alice", SEEN, "t1", "5f" * 32),
)


def closed_gate() -> Gate:
    gate = Gate()
    gate.follow(USERS)
    return gate


def test_what_keys_of_fields_begin_with() -> None:
    raw = b"0123456789abcdef"
    cluster = USERS.with_table(TableEntry(table_id_from_bytes(raw), "flights", 1, 1, ((),), definition=FLIGHTS))
    gate = Gate(lambda: cluster)
    assert gate.key_text("flights", flight_key("UA", 5)) == '["UA",5]'
    assert gate.key_text("flights", flight_key("UA", 5)[:4]) == '["UA",…'
    assert gate.key_text("flights", b'["UA",15') == '["UA",15', "keys as text begin so"
    assert gate.key_text("orders", flight_key("UA", 5)) == gate.key_text("flights", b"\xff") == ""


def test_without_users_the_gate_is_open() -> None:
    gate = Gate()
    gate.follow(map_of(RegisterNode("n1", "", "a")))
    assert not gate.is_closed
    for demand in (*DEMANDS, CLUSTER_ADMIN, SERVERS_ONLY, ANY_USER):
        assert gate.decide(NOBODY, demand) == 0


def test_nobody_passes_a_closed_gate() -> None:
    gate = closed_gate()
    assert gate.is_closed
    for demand in (*DEMANDS, CLUSTER_ADMIN, SERVERS_ONLY, ANY_USER):
        with pytest.raises(Unauthenticated, match="nobody is no user at version 2"):
            gate.decide(NOBODY, demand)


def test_a_user_passes_with_a_grant() -> None:
    gate = closed_gate()
    alice = gate.caller("alice", "password")
    for demand in (*DEMANDS, ANY_USER):
        assert gate.decide(alice, demand) == 2


@pytest.mark.parametrize(
    ("demand", "missing"),
    [
        (KeyDemand(Right.READ, "orders", (b"eu:1", b"us:1")), "read orders --key us:1"),
        (KeyDemand(Right.READ, "orders", (b"\xff",)), "read orders --key base64:/w=="),
        (KeyDemand(Right.WRITE, "orders", (b"eu:1",)), "write orders --key eu:1"),
        (KeyDemand(Right.READ, "ships", ()), "read ships"),
        (PrefixDemand(Right.READ, "orders"), "read orders"),
        (PrefixDemand(Right.READ, "orders", b"eu"), "read orders --key eu"),
        (PrefixDemand(Right.WRITE, "_duramen_audit"), "write _duramen_audit"),
        (
            RangeDemand(Right.READ, "orders", b"eu:", b"f"),
            "read orders, on a prefix that holds the whole range of keys",
        ),
        (RangeDemand(Right.READ, "orders"), "read orders, on a prefix that holds the whole range of keys"),
        (CLUSTER_ADMIN, "admin *"),
        (SERVERS_ONLY, "a certificate of a server of this cluster"),
    ],
)
def test_a_refusal_names_what_is_missing(demand: Demand, missing: str) -> None:
    gate = closed_gate()
    with pytest.raises(PermissionDenied) as refusal:
        gate.decide(gate.caller("alice", "password"), demand)
    assert refusal.value.message == (
        f"user alice may not do this at version 2 of the catalog: what is missing is '{missing}'"
    )


def test_a_superuser_is_no_server_and_reads_nothing_that_was_not_granted() -> None:
    gate = closed_gate()
    root = gate.caller("root", "password")
    assert gate.decide(root, CLUSTER_ADMIN) == 2
    for demand in (SERVERS_ONLY, *DEMANDS):
        with pytest.raises(PermissionDenied):
            gate.decide(root, demand)


def test_a_server_passes() -> None:
    gate = closed_gate()
    for demand in (*DEMANDS, SERVERS_ONLY, CLUSTER_ADMIN):
        assert gate.decide(gate.caller("n1", "server"), demand) == 2


@pytest.mark.parametrize("command", [RevokeRights("alice", SEEN, "read orders --key eu:"), RemoveUser("alice", SEEN)])
def test_a_revocation_is_in_force_for_callers_of_before(command: Command) -> None:
    gate = closed_gate()
    alice = gate.caller("alice", "password")
    refused: list[int] = []

    def check() -> None:
        with pytest.raises((PermissionDenied, Unauthenticated)):
            gate.decide(alice, DEMANDS[0])
        refused.append(gate.version)

    gate.on_change(check)
    gate.follow(next_map(USERS, command))
    assert refused == [3], "in the turn in which the map came"


def test_a_revoked_token() -> None:
    gate = closed_gate()
    alice = gate.caller("alice", "token", credential="t1")
    assert gate.decide(alice, DEMANDS[0]) == 2
    gate.follow(next_map(USERS, RevokeToken("alice", SEEN, "t1")))
    with pytest.raises(Unauthenticated, match="the token t1 of user alice was revoked"):
        gate.decide(alice, DEMANDS[0])


def test_a_grant_is_in_force_for_callers_of_before() -> None:
    gate = closed_gate()
    alice = gate.caller("alice", "password")
    gate.follow(next_map(USERS, GrantRights("alice", SEEN, "write orders")))
    assert gate.decide(alice, KeyDemand(Right.WRITE, "orders", (b"k",))) == 3


def test_an_older_map_is_void() -> None:
    gate = closed_gate()
    gate.follow(map_of(RegisterNode("n1", "", "a")))
    assert gate.is_closed
    assert gate.version == 2


def test_who_left_is_not_called() -> None:
    gate, called = closed_gate(), list[int]()
    leave = gate.on_change(lambda: called.append(gate.version))
    gate.follow(next_map(USERS, RegisterNode("n1", "", "a")))
    assert called == [], "no user changed"
    leave()
    leave()
    gate.follow(next_map(next_map(USERS, RegisterNode("n1", "", "a")), RemoveUser("alice", SEEN)))
    assert called == []
