"""ACL while the catalog has no users, compared with a real Redis server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kit.resp.raw_client import Raw, RawError, Status
from kit.resp.real_redis import RealRedis
from kit.resp.server_thread import ServerThread

from router.endpoints.resp.command_descriptions import DESCRIPTIONS
from router.endpoints.resp.commands.command_table import COMMANDS
from router.endpoints.resp.server.sockets import RespSettings

Pair = tuple[Raw, Raw]


@pytest.fixture(scope="module", params=[2, 3], ids=["RESP2", "RESP3"])
def pair(server: ServerThread, redis_server: RealRedis, request: pytest.FixtureRequest) -> Iterator[Pair]:
    with server.connect() as ours, Raw(redis_server.address) as theirs:
        for side in (ours, theirs):
            side.call("HELLO", request.param)
        yield ours, theirs


@pytest.mark.parametrize(
    "text",
    [
        *("ACL WHOAMI", "ACL USERS", "ACL LIST", "ACL GETUSER default", "ACL GETUSER nobody", "acl whoami", "ACL CAT"),
        *("ACL", "ACL NOPE", "ACL WHOAMI x", "ACL GETUSER", "ACL GETUSER a b", "ACL CAT nope", "ACL CAT a b"),
        *("ACL HELP x", "ACL SETUSER", "ACL DELUSER", "ACL LOAD x", "ACL SAVE x", "ACL LIST x", "ACL USERS x"),
    ],
)
def test_the_reply_is_that_of_redis(pair: Pair, text: str) -> None:
    ours, theirs = (side.call(*text.split()) for side in pair)
    assert ours == theirs


def test_a_category_has_the_commands_that_it_has_in_redis(pair: Pair) -> None:
    later = {b"client|setinfo", b"client|no-touch"}
    for category in pair[1].call("ACL", "CAT"):
        ours, theirs = (set(side.call("ACL", "CAT", category.decode().upper())) for side in pair)
        known = {name.encode() for name in DESCRIPTIONS}
        assert {name for name in ours - later if not name.startswith(b"duramen.")} == theirs & known, category


def test_help_names_what_is_here(pair: Pair) -> None:
    ours, theirs = (side.call("ACL", "HELP") for side in pair)
    assert all(isinstance(line, Status) for line in ours)
    assert all(isinstance(line, Status) for line in theirs)
    named = {line.text.split()[0] for line in ours[1:] if not line.text.startswith((" ", "Users"))}
    changing = {"SETUSER", "DELUSER", "LOAD", "SAVE"}
    assert named == set(COMMANDS["acl"].subcommands or ()) - changing
    assert named <= {line.text.split()[0] for line in theirs[1:]}


def test_users_are_made_elsewhere(pair: Pair) -> None:
    for words in (("SETUSER", "alice", "on", ">secret"), ("DELUSER", "alice"), ("LOAD",), ("SAVE",)):
        assert pair[0].call("ACL", *words) == RawError(
            f"ERR ACL {words[0]} changes nothing here: use 'duramen user' and 'duramen grant', for all endpoints"
        )
    assert pair[0].call("ACL", "USERS") == [b"default"]


def test_of_the_one_password_no_hash_is_shown(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("password")
    running = ServerThread(folder, RespSettings(port=0, password="of everybody")).start()
    try:
        with running.connect() as raw:
            assert raw.call("ACL", "WHOAMI") == RawError("NOAUTH Authentication required.")
            assert raw.call("AUTH", "of everybody") == Status("OK")
            assert raw.call("ACL", "WHOAMI") == b"default"
            assert raw.call("ACL", "LIST") == [b"user default on ~* &* +@all"]
            entry = raw.call("ACL", "GETUSER", "default")
            assert entry[:4] == [b"flags", [b"on"], b"passwords", []]
    finally:
        running.close()
