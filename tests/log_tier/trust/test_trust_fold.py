"""The fold of users: commands on a map of the catalog, against a model of dicts and by example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import COMMANDS, RegisterNode, command_batch, parse_command
from log_tier.catalog.decisions import DECISIONS_MAX
from log_tier.catalog.map_json import map_to_json
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import UnknownFormat
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.trust.grants import Right
from log_tier.trust.quotas import NO_QUOTA, Quota
from log_tier.trust.trust_commands import (
    TRUST_COMMANDS,
    AddRole,
    AddToken,
    AddUser,
    AssignRole,
    GrantRights,
    RemoveRole,
    RemoveUser,
    RevokeRights,
    RevokeToken,
    SetPassword,
    SetQuota,
    TrustCommand,
    UnassignRole,
)
from log_tier.trust.users import ApiToken, TrustRole, User

FIXTURE = Path(__file__).parent / "commands-2.jsonl"
SEEN = Offset(NOTHING)
DIGEST = "5f" * 32
ROOT = AddUser("root", SEEN, "hash", ("admin *",))

NAMES = st.sampled_from(["root", "alice", "clerks", "admins"])
GRANTS = st.sampled_from(["admin *", "read a*", "write b --key x"])
TOKENS = st.sampled_from(["t1", "t2"])
SUBJECTS = st.sampled_from(["user:root", "user:alice", "table:orders", "table:ord*", "table:*", "nothing"])
CHANGES: st.SearchStrategy[TrustCommand] = st.one_of(
    st.builds(AddUser, NAMES, st.just(SEEN), st.text(max_size=3), st.lists(GRANTS, max_size=2).map(tuple)),
    st.builds(AddUser, NAMES, st.just(SEEN), token=TOKENS, sha256=st.just(DIGEST), expires_ms=st.integers(0, 30)),
    st.builds(RemoveUser, NAMES, st.just(SEEN)),
    st.builds(SetPassword, NAMES, st.just(SEEN), st.text(max_size=3)),
    st.builds(AddToken, NAMES, st.just(SEEN), TOKENS, st.just(DIGEST), st.integers(0, 30)),
    st.builds(RevokeToken, NAMES, st.just(SEEN), TOKENS),
    st.builds(AddRole, NAMES, st.just(SEEN), st.lists(GRANTS, max_size=2).map(tuple)),
    st.builds(RemoveRole, NAMES, st.just(SEEN)),
    st.builds(GrantRights, NAMES, st.just(SEEN), GRANTS),
    st.builds(RevokeRights, NAMES, st.just(SEEN), GRANTS),
    st.builds(AssignRole, NAMES, st.just(SEEN), NAMES),
    st.builds(UnassignRole, NAMES, st.just(SEEN), NAMES),
    st.builds(SetQuota, SUBJECTS, st.just(SEEN), st.integers(-1, 2), st.integers(0, 2)),
)


def fold_all(*commands: TrustCommand, cluster: ClusterMap | None = None) -> tuple[ClusterMap, str]:
    """The map after the commands, and why the last one was refused."""
    cluster = cluster or ClusterMap()
    rejection = ""
    for command in commands:
        offset = Offset(cluster.version + 1)
        cluster, (_, rejection) = fold_command(cluster, offset, 10 + offset, f"c{offset}", command)
    return cluster, rejection


@settings(max_examples=200)
@given(st.lists(CHANGES, max_size=25))
def test_what_always_holds(commands: list[TrustCommand]) -> None:
    cluster = ClusterMap()
    granted: dict[str, set[str]] = {}
    for command in (ROOT, *commands):
        cluster, rejection = fold_all(command, cluster=cluster)
        trust = cluster.trust
        if not rejection:
            match command:
                case AddUser(user=name) | AddRole(role=name):
                    granted[name] = set(command.grants)
                case RemoveUser(user=name) | RemoveRole(role=name):
                    del granted[name]
                case GrantRights(to=name, grant=grant):
                    granted[name].add(grant)
                case RevokeRights(to=name, grant=grant):
                    granted[name].remove(grant)
                case _:
                    pass
        entries: dict[str, User | TrustRole] = {**trust.users, **trust.roles}
        assert {name: {each.text for each in entry.grants} for name, entry in entries.items()} == granted
        assert any(map(trust.is_superuser, trust.users)), "T3: nobody could manage users"
        assert len(trust.users) + len(trust.roles) == len(entries), "users and roles share their names"
        ids = [token.id for user in trust.users.values() for token in user.tokens]
        assert len(ids) == len(set(ids)), "one id is one token"
        quotas = {subject.partition(":")[2] for subject in trust.quotas if subject.startswith("user:")}
        assert quotas <= set(trust.users), "a quota goes with its user"
        assert all(quota != NO_QUOTA for quota in trust.quotas.values()), "a quota bounds something"
        for name, user in trust.users.items():
            assert set(user.roles) <= set(trust.roles), "a user has roles that are there"
            assert trust.rights_of(name, Offset(1)).is_superuser is trust.is_superuser(name)


@given(CHANGES)
def test_a_change_comes_back_from_its_bytes(command: TrustCommand) -> None:
    stamped = stamp_batch(command_batch(command, "id"), base_offset=Offset(0), timestamp_ms=1, unsynced=0)
    columns = decode_batch(stamped).columns
    assert parse_command(columns.keys[0], columns.values[0]) == ("id", command)


def test_a_user_has_its_own_grants_and_those_of_its_roles() -> None:
    cluster, rejection = fold_all(
        ROOT,
        AddRole("clerks", SEEN, ("read orders*",)),
        AddUser("alice", SEEN, "hash", ("write orders --key eu:",)),
        AssignRole("alice", SEEN, "clerks"),
    )
    assert rejection == ""
    rights = cluster.trust.rights_of("alice", cluster.version)
    assert rights.version == 3
    assert rights.may(Right.READ, "orders-2", b"us:1")
    assert rights.may(Right.WRITE, "orders", b"eu:1")
    assert not rights.may(Right.WRITE, "orders", b"us:1")
    cluster, rejection = fold_all(RemoveRole("clerks", SEEN), cluster=cluster)
    assert rejection == "role clerks is assigned to alice: unassign it first"
    cluster, _ = fold_all(UnassignRole("alice", SEEN, "clerks"), RemoveRole("clerks", SEEN), cluster=cluster)
    assert not cluster.trust.rights_of("alice", cluster.version).may(Right.READ, "orders", b"")


def test_the_first_user_manages_users() -> None:
    cluster, rejection = fold_all(AddUser("alice", SEEN, "hash", ("read *",)))
    assert rejection.startswith("the first user needs the grant 'admin *'")
    assert not cluster.trust.is_closed
    cluster, _ = fold_all(ROOT, cluster=cluster)
    assert cluster.trust.is_closed
    for command in (RemoveUser("root", SEEN), RevokeRights("root", SEEN, "admin *")):
        after, rejection = fold_all(command, cluster=cluster)
        assert rejection.startswith("this would leave no user with admin on *")
        assert after.trust == cluster.trust


def test_a_role_may_exist_before_the_first_user() -> None:
    cluster, rejection = fold_all(AddRole("r", SEEN, ("read *",)), RevokeRights("r", SEEN, "read *"))
    assert (rejection, cluster.trust.is_closed) == ("", False)


def test_tokens() -> None:
    cluster, _ = fold_all(ROOT, AddToken("root", SEEN, "t1", DIGEST, 1000))
    assert cluster.trust.users["root"].token("t1") == ApiToken("t1", DIGEST, 1000)
    assert [ApiToken("t1", DIGEST, 1000).is_void_at(time) for time in (999, 1000)] == [False, True]
    assert not ApiToken("t1", DIGEST).is_void_at(10**15)
    _, rejection = fold_all(AddToken("root", SEEN, "t2", DIGEST, 5), cluster=cluster)
    assert rejection == "the token would expire at 5 ms; the log's time is 12 ms"
    _, rejection = fold_all(AddToken("root", SEEN, "t2", "no digest"), cluster=cluster)
    assert "64 hex digits" in rejection
    cluster, _ = fold_all(RevokeToken("root", SEEN, "t1"), cluster=cluster)
    assert cluster.trust.users["root"].tokens == ()


def test_a_user_comes_with_its_first_token() -> None:
    first = AddUser("root", SEEN, grants=("admin *",), token="t1", sha256=DIGEST, expires_ms=1000)
    cluster, rejection = fold_all(first)
    assert rejection == ""
    assert cluster.trust.users["root"].tokens == (ApiToken("t1", DIGEST, 1000),)
    assert DIGEST not in repr(first)
    for wrong, words in (
        (AddUser("alice", SEEN, token="t1", sha256=DIGEST), "there is a token t1 already"),
        (AddUser("alice", SEEN, token="t2", sha256="no digest"), "64 hex digits"),
        (AddUser("alice", SEEN, token="t2"), "64 hex digits"),
        (AddUser("alice", SEEN, sha256=DIGEST), "an id of 1 to 32"),
        (AddUser("alice", SEEN, expires_ms=1000), "an id of 1 to 32"),
        (AddUser("alice", SEEN, token="t2", sha256=DIGEST, expires_ms=5), "would expire at 5 ms"),
    ):
        after, rejection = fold_all(wrong, cluster=cluster)
        assert words in rejection
        assert after.trust == cluster.trust, "a refused command leaves no part of a user"


def test_a_first_token_has_its_own_bytes() -> None:
    """The file was written when first tokens landed; it is never written again."""
    line = json.loads((FIXTURE.parent / "first_token-2.jsonl").read_text())
    _, command = parse_command(line["key"].encode(), line["value"].encode())
    assert command == AddUser("root", Offset(7), "", ("admin *",), "k3v9", DIGEST, 90)
    batch = command_batch(command, "0123456789abcdef")
    stamped = stamp_batch(batch, base_offset=Offset(0), timestamp_ms=0, unsynced=0)
    assert decode_batch(stamped).columns.values[0].decode() == line["value"]


def test_no_secret_is_shown() -> None:
    cluster, _ = fold_all(AddUser("root", SEEN, "the-hash", ("admin *",)), AddToken("root", SEEN, "t1", DIGEST))
    shown = f"{cluster!r} {AddUser('root', SEEN, 'the-hash')} {AddToken('root', SEEN, 't1', DIGEST)}"
    assert "the-hash" not in shown
    assert DIGEST not in shown
    sent = map_to_json(cluster).decode()
    assert "root" not in sent
    assert DIGEST not in sent


def test_a_recorded_command_that_is_appended_again() -> None:
    """With its id it is known; when its id is forgotten, it is too old."""
    token = AddToken("root", Offset(0), "t1", DIGEST)
    cluster, _ = fold_all(ROOT)
    cluster, _ = fold_command(cluster, Offset(1), 20, "once", token)
    cluster, _ = fold_all(RevokeToken("root", Offset(0), "t1"), cluster=cluster)
    cluster, decision = fold_command(cluster, Offset(3), 20, "once", token)
    assert decision.offset == 1, "the decision is the first one's"
    assert cluster.trust.users["root"].tokens == ()
    for number in range(DECISIONS_MAX):
        offset = Offset(4 + number)
        cluster, _ = fold_command(cluster, offset, 20, f"n{number}", RegisterNode("n1", "", "a"))
    assert cluster.decisions.get("once") is None, "the fold has forgotten the id"
    cluster, decision = fold_command(cluster, Offset(cluster.version + 1), 20, "once", token)
    assert decision.rejection.startswith("the command was decided at version 0")
    assert cluster.trust.users["root"].tokens == ()


def test_a_command_that_has_seen_what_is_not_there_yet() -> None:
    cluster, _ = fold_all(ROOT)
    _, (_, rejection) = fold_command(cluster, Offset(1), 20, "x", RemoveUser("root", Offset(1)))
    assert rejection.startswith("the command was decided at version 1")


def test_records_of_users_are_of_format_2() -> None:
    """The file was written when format 2 landed; it is never written again. What format 1 has is still written so.

    `set-quota` got its bounds of scans, watches and connections before anything wrote one.
    """
    lines = [json.loads(line) for line in FIXTURE.read_text().splitlines()]
    assert [line["key"] for line in lines] == list(TRUST_COMMANDS)
    for line in lines:
        command_id, command = parse_command(line["key"].encode(), line["value"].encode())
        assert command_id == "0123456789abcdef"
        assert type(command) is COMMANDS[line["key"]]
        stamped = stamp_batch(command_batch(command, command_id), base_offset=Offset(0), timestamp_ms=0, unsynced=0)
        assert decode_batch(stamped).columns.values[0].decode() == line["value"]
        with pytest.raises(UnknownFormat, match="format 1"):
            parse_command(line["key"].encode(), line["value"].replace('"v":2', '"v":1').encode())
    stamped = stamp_batch(
        command_batch(RegisterNode("n1", "", "a"), "x"), base_offset=Offset(0), timestamp_ms=0, unsynced=0
    )
    assert decode_batch(stamped).columns.values[0].startswith(b'{"v":1,')


@pytest.mark.parametrize("fields", ['"grants":[1]', '"grants":"admin *"', '"password":7', '"seen":true', '"more":1'])
def test_users_that_a_newer_version_wrote(fields: str) -> None:
    value = f'{{"v":2,"id":"x","user":"u","seen":0,"password":"","grants":[],{fields}}}'
    with pytest.raises(UnknownFormat):
        parse_command(b"add-user", value.encode())


def test_quotas_are_of_users_and_of_tables() -> None:
    cluster, rejection = fold_all(
        ROOT,
        AddUser("alice", SEEN, "hash"),
        SetQuota("user:alice", SEEN, calls_s=10),
        SetQuota("table:*", SEEN, calls_s=1000),
        SetQuota("table:ord*", SEEN, bytes_in_s=5),
        SetQuota("table:orders", SEEN, scans=2),
    )
    assert rejection == ""
    trust = cluster.trust
    assert [trust.quota_of_user(name) for name in ("alice", "root")] == [Quota(calls_s=10), NO_QUOTA]
    found = {name: trust.quota_of_table(name) for name in ("orders", "orders2", "ord", "ships", "")}
    assert found == {
        "orders": ("table:orders", Quota(scans=2)),
        "orders2": ("table:ord*", Quota(bytes_in_s=5)),
        "ord": ("table:ord*", Quota(bytes_in_s=5)),
        "ships": ("table:*", Quota(calls_s=1000)),
        "": ("table:*", Quota(calls_s=1000)),
    }
    cluster, _ = fold_all(SetQuota("table:ord*", SEEN), SetQuota("user:alice", SEEN, 7), cluster=cluster)
    assert cluster.trust.quota_of_table("ord")[0] == "table:*"
    assert cluster.trust.quota_of_user("alice") == Quota(calls_s=7), "the whole quota is replaced"
    cluster, _ = fold_all(RemoveUser("alice", SEEN), AddUser("alice", SEEN, "hash"), cluster=cluster)
    assert cluster.trust.quota_of_user("alice") == NO_QUOTA


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (SetQuota("user:bob", SEEN, 1), "there is no user 'bob'"),
        (SetQuota("root", SEEN, 1), "'root' has no quota: name user:NAME, table:NAME or table:PREFIX*"),
        (SetQuota("table:a b", SEEN, 1), "is no grant"),
        (SetQuota("user:root", SEEN, -1), "the quota calls_s is -1"),
        (SetQuota("user:root", SEEN, 1 << 60), "the quota calls_s is"),
        (SetQuota("table:orders", SEEN, connections=1), "table:orders has no connections that could be bounded"),
    ],
)
def test_what_is_no_quota_is_refused(command: SetQuota, why: str) -> None:
    cluster, rejection = fold_all(ROOT, command)
    assert why in rejection
    assert not cluster.trust.quotas


def test_a_quota_that_is_set_again_changes_nothing() -> None:
    """The same version's users stay the same object, so that no bucket begins anew."""
    before, _ = fold_all(ROOT, SetQuota("user:root", SEEN, 7))
    after, rejection = fold_all(SetQuota("user:root", SEEN, 7), SetQuota("table:orders", SEEN), cluster=before)
    assert rejection == ""
    assert after.trust is before.trust
    removed, rejection = fold_all(SetQuota("user:root", SEEN), SetQuota("user:root", SEEN), cluster=after)
    assert (rejection, list(removed.trust.quotas)) == ("", [])
