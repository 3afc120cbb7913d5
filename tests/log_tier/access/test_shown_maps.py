"""What of a map is shown to a caller whose call an older map let in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from log_tier.access.current import CALLER
from log_tier.access.shown_tables import map_shown_to_caller
from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import Command
from log_tier.model.errors import Unauthenticated
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.trust.caller import Caller
from log_tier.trust.rights import NO_RIGHTS
from log_tier.trust.trust_commands import AddToken, AddUser, RemoveUser, RevokeToken, SetPassword

SEEN = Offset(NOTHING)


def folded(cluster: ClusterMap, *commands: Command) -> ClusterMap:
    for command in commands:
        offset = Offset(cluster.version + 1)
        cluster, (_, rejection) = fold_command(cluster, offset, 10, f"c{offset}", command)
        assert rejection == "", "the commands of these tests take effect"
    return cluster


USERS = folded(
    ClusterMap(),
    AddUser("root", SEEN, "the hash", ("admin *",)),
    AddUser("alice", SEEN, "", ("read orders",)),
    AddToken("alice", SEEN, "t1", "5f" * 32),
    AddUser("second", SEEN, "another hash", ("admin *",)),
)
ALICE = Caller("alice", "token", NO_RIGHTS, "t1")
ROOT = Caller("root", "password", NO_RIGHTS, "the hash")


CERTIFIED = Caller("root", "certificate", NO_RIGHTS)


@pytest.fixture(params=[ALICE, ROOT, CERTIFIED], ids=["token", "password", "certificate"])
def caller(request: pytest.FixtureRequest) -> Iterator[Caller]:
    before = CALLER.set(request.param)
    yield request.param
    CALLER.reset(before)


def test_a_caller_is_shown_a_map_by_the_users_of_that_map(caller: Caller) -> None:
    assert map_shown_to_caller(USERS).to == ("alice" if caller is ALICE else "")


def test_a_caller_that_the_map_has_removed_is_no_user_of_it(caller: Caller) -> None:
    removed = folded(USERS, RemoveUser(caller.name, SEEN))
    with pytest.raises(Unauthenticated, match=f"user {caller.name} is no user at version {removed.version}"):
        map_shown_to_caller(removed)


@pytest.mark.parametrize(
    ("caller", "change", "said"),
    [
        (ALICE, RevokeToken("alice", SEEN, "t1"), "the token t1 of user alice was revoked"),
        (ROOT, SetPassword("root", SEEN, "a new hash"), "the password of user root was changed"),
    ],
    indirect=["caller"],
    ids=["token", "password"],
)
def test_a_proof_that_the_map_has_made_void_shows_nothing(caller: Caller, change: Command, said: str) -> None:
    with pytest.raises(Unauthenticated, match=said):
        map_shown_to_caller(folded(USERS, change))


def test_who_was_let_in_before_there_was_a_user_is_nobody_afterwards() -> None:
    before = CALLER.set(Caller("", "nothing", NO_RIGHTS))
    try:
        assert map_shown_to_caller(ClusterMap()).to == ""
        with pytest.raises(Unauthenticated, match="nobody is no user"):
            map_shown_to_caller(USERS)
    finally:
        CALLER.reset(before)
