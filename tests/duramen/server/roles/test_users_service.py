"""`duramen.v1.Users` of a running server: who may change what, and that a change holds when it is answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from kit.client.with_users import WithUsers
from kit.deadlines import patience_s, until, within

from duramen import aio
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from log_tier.access.client.client_credentials import client_credentials
from log_tier.access.client.kept_credentials import TokenCredentials
from log_tier.access.tokens import read_token
from log_tier.model.errors import (
    CommandRejected,
    DuramenError,
    InvalidName,
    InvalidRequest,
    PermissionDenied,
    Unauthenticated,
)
from log_tier.rpc.credentials import proving
from log_tier.trust.trust_commands import AddUser
from router.admin.users.users_client import UsersConnection

PASSWORD = "correct horse battery"
OTHER_PASSWORD = "another horse"


class UsersHere:
    """A server, and connections to it as several users."""

    def __init__(self, server: SingleServer, opened: AsyncExitStack) -> None:
        self.server = server
        self.target = f"127.0.0.1:{server.port}"
        self._opened = opened

    async def by(self, **proof: str) -> UsersConnection:
        """A connection with this proof, or with none."""
        with proving(client_credentials(**proof, environment={}) if proof else None):
            return await self._opened.enter_async_context(UsersConnection(self.target, timeout=patience_s(30)))


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[UsersHere]:
    async with AsyncExitStack() as opened:
        server = await SingleServer.open(tmp_path / "data", port=0)
        opened.push_async_callback(server.close)
        yield UsersHere(server, opened)


@pytest.fixture
async def root(here: UsersHere) -> UsersConnection:
    """The first user, made by a server that had none."""
    made = await (await here.by()).add_user("root", grants=["admin *", "read,write *"], with_token=True)
    return await here.by(token=made.token)


async def refusal(call: Coroutine[Any, Any, object]) -> DuramenError:
    with pytest.raises(DuramenError) as refused:
        await call
    return refused.value


async def test_the_first_user_closes_the_server(here: UsersHere) -> None:
    nobody = await here.by()
    said = await nobody.who_am_i()
    assert (said.user, said.proof, list(said.grants)) == ("", "nothing", [])
    refused = await refusal(nobody.add_user("root", with_token=True))
    assert "the first user needs the grant 'admin *'" in refused.message
    made = await nobody.add_user("root", grants=["admin *"], with_token=True)
    read = read_token(made.token)
    assert read is not None
    assert (read.user, read.id) == ("root", made.token_id)
    assert isinstance(await refusal(nobody.users()), Unauthenticated)
    assert isinstance(await refusal(nobody.who_am_i()), Unauthenticated)
    said = await (await here.by(token=made.token)).who_am_i()
    assert (said.user, said.proof, list(said.grants), said.expires_ms) == ("root", "token", ["admin *"], 0)
    assert said.version >= made.version, "the audit's table may have been made since"


async def test_everything_that_an_administrator_does(here: UsersHere, root: UsersConnection) -> None:
    versions = [
        (await root.add_user("alice", password=PASSWORD, grants=["read  orders".replace("  ", " ")])).version,
        await root.grant("alice", "write,read ships* --key eu:"),
        await root.add_role("clerks", ["read *"]),
        await root.assign_role("alice", "clerks"),
        await root.grant("clerks", "write notes"),
    ]
    assert versions == sorted(versions)
    listed = await root.users()
    assert listed.version >= versions[-1]
    assert [user.user for user in listed.users] == ["alice", "root"]
    alice = listed.users[0]
    assert (alice.has_password, list(alice.tokens)) == (True, [])
    assert (list(alice.grants), list(alice.roles)) == (["read orders", "read,write ships* --key eu:"], ["clerks"])
    assert [(role.role, list(role.grants)) for role in listed.roles] == [("clerks", ["read *", "write notes"])]
    said = await (await here.by(user="alice", password=PASSWORD)).who_am_i()
    assert (said.user, said.proof, list(said.roles)) == ("alice", "password", ["clerks"])
    assert list(said.grants) == ["read orders", "read,write ships* --key eu:", "read *", "write notes"]
    await root.revoke("alice", "read,write ships* --key eu:")
    await root.unassign_role("alice", "clerks")
    await root.remove_role("clerks")
    await root.remove_user("alice")
    listed = await root.users()
    assert ([user.user for user in listed.users], list(listed.roles)) == (["root"], [])


Ask = Callable[[UsersConnection], Coroutine[Any, Any, object]]


@pytest.mark.parametrize(
    ("ask", "kind", "words"),
    [
        (lambda users: users.add_user("a b"), InvalidName, "cannot name a user"),
        (lambda users: users.add_user("_duramen_x"), InvalidName, "Duramen's own"),
        (lambda users: users.add_user("bob", grants=["read"]), InvalidRequest, "is no grant"),
        (lambda users: users.add_user("bob", password="short"), InvalidRequest, "at least 8 characters"),
        (lambda users: users.add_user("bob", ttl_ms=5), InvalidRequest, "ask for a token too"),
        (lambda users: users.add_user("root"), CommandRejected, "a user 'root' already"),
        (lambda users: users.remove_user("bob"), CommandRejected, "no user 'bob'"),
        (lambda users: users.remove_user("root"), CommandRejected, "no user with admin on"),
        (lambda users: users.revoke("root", "admin *"), CommandRejected, "no user with admin on"),
        (lambda users: users.set_password("bob", PASSWORD), CommandRejected, "no user 'bob'"),
        (lambda users: users.set_password("root", "short"), InvalidRequest, "at least 8 characters"),
        (lambda users: users.add_token("bob"), CommandRejected, "no user 'bob'"),
        (lambda users: users.add_token("root", ttl_ms=2**60), InvalidRequest, "expires within"),
        (lambda users: users.revoke_token("root", "nonsense"), CommandRejected, "has no token nonsense"),
        (lambda users: users.grant("bob", "read orders"), CommandRejected, "no user and no role 'bob'"),
        (lambda users: users.grant("root", "fly orders"), InvalidRequest, "are no rights"),
        (lambda users: users.grant("root", "admin orders --key x"), InvalidRequest, "without a key prefix"),
        (lambda users: users.revoke("root", "read orders"), CommandRejected, "revoke it as it was granted"),
        (lambda users: users.add_role("root"), CommandRejected, "share their names"),
        (lambda users: users.remove_role("clerks"), CommandRejected, "no role 'clerks'"),
        (lambda users: users.assign_role("root", "clerks"), CommandRejected, "no role 'clerks'"),
        (lambda users: users.unassign_role("root", "clerks"), CommandRejected, "has no role clerks"),
    ],
)  # fmt: skip
async def test_what_cannot_be_is_refused(root: UsersConnection, ask: Ask, kind: type[DuramenError], words: str) -> None:
    before = await root.users()
    refused = await refusal(ask(root))
    assert (type(refused), words in refused.message) == (kind, True), refused
    after = await root.users()
    assert (list(after.users), list(after.roles)) == (list(before.users), list(before.roles))


async def test_nobody_else_manages_users(here: UsersHere, root: UsersConnection) -> None:
    made = await root.add_user("alice", grants=["read,write,admin orders*"], with_token=True)
    alice = await here.by(token=made.token)
    for call in (
        alice.add_user("bob"), alice.remove_user("alice"), alice.users(), alice.grant("alice", "read *"),
        alice.revoke("alice", "read,write,admin orders*"), alice.add_role("r"), alice.remove_role("r"),
        alice.assign_role("alice", "r"), alice.unassign_role("alice", "r"), alice.set_password("root", PASSWORD),
        alice.add_token("root"), alice.revoke_token("root", "x"),
    ):  # fmt: skip
        refused = await refusal(call)
        assert isinstance(refused, PermissionDenied), refused
        assert "user alice" in refused.message
        assert "'admin *'" in refused.message


async def test_ones_own_are_for_everybody(here: UsersHere, root: UsersConnection) -> None:
    made = await root.add_user("alice", grants=["read orders"], with_token=True)
    alice = await here.by(token=made.token)
    for name in ("", "alice"):
        await alice.set_password(name, PASSWORD)
        assert (await (await here.by(user="alice", password=PASSWORD)).who_am_i()).user == "alice"
        own = await alice.add_token(name)
        said = await (await here.by(token=own.token)).who_am_i()
        assert (said.user, list(said.grants)) == ("alice", ["read orders"]), "a token has its user's rights"
        await alice.revoke_token(name, own.token_id)
        assert isinstance(await refusal((await here.by(token=own.token)).who_am_i()), Unauthenticated)
    await alice.set_password("", "")
    assert isinstance(await refusal((await here.by(user="alice", password=PASSWORD)).who_am_i()), Unauthenticated)


async def test_a_token_that_expires_makes_nothing_that_outlives_it(here: UsersHere, root: UsersConnection) -> None:
    await root.add_user("alice", grants=["read orders"])
    hour_ms = 3_600_000
    given = await root.add_token("alice", ttl_ms=hour_ms)
    alice = await here.by(token=given.token)
    assert [(await alice.add_token("", ttl_ms=ttl)).expires_ms for ttl in (0, 2 * hour_ms)] == [given.expires_ms] * 2
    assert (await alice.add_token("", ttl_ms=hour_ms // 2)).expires_ms < given.expires_ms
    assert isinstance(await refusal(alice.set_password("", PASSWORD)), PermissionDenied)
    assert (await alice.who_am_i()).expires_ms == given.expires_ms
    lasting = await root.add_token("alice")
    assert lasting.expires_ms == 0
    assert (await (await here.by(token=lasting.token)).add_token("")).expires_ms == 0


async def test_a_change_holds_when_it_is_answered(here: UsersHere, root: UsersConnection) -> None:
    made = await root.add_user("alice", with_token=True)
    alice = await here.by(token=made.token)
    for _ in range(20):
        version = await root.grant("alice", "admin *")
        assert (await alice.users()).version >= version
        await root.revoke("alice", "admin *")
        assert isinstance(await refusal(alice.users()), PermissionDenied)


async def test_two_administrators_at_once(here: UsersHere, root: UsersConnection) -> None:
    """Whatever they do at once, each change happens once or is refused with a reason, and both hear the same end."""
    made = await root.add_user("other", grants=["admin *"], with_token=True)
    both = [root, await here.by(token=made.token)]
    await root.add_user("alice")
    grants = [f"read table{number}" for number in range(20)]
    results = await asyncio.gather(
        *(each.grant("alice", grant) for grant in grants for each in both), return_exceptions=True
    )
    versions = [result for result in results if isinstance(result, int)]
    refused = [result for result in results if isinstance(result, CommandRejected)]
    assert (len(versions), len(refused)) == (20, 20), results
    assert len(set(versions)) == 20
    assert all("has the grant" in each.message for each in refused)
    listed = await root.users()
    assert sorted(listed.users[0].grants) == sorted(grants)
    # Each removes the other: one stays.
    ends = await asyncio.gather(root.remove_user("other"), both[1].remove_user("root"), return_exceptions=True)
    assert sum(isinstance(end, int) for end in ends) == 1, ends


async def test_a_token_is_revoked_while_its_users_calls_are_under_way(here: UsersHere, root: UsersConnection) -> None:
    made = await root.add_user("alice", grants=["read,write,admin orders"], with_token=True)
    acknowledged: list[int] = []
    async with await aio.connect(here.target, token=made.token) as database:
        table = await database.create_table("orders", partitions=2)

        async def write(worker: int) -> DuramenError:
            for number in range(worker, 1_000_000, 8):
                try:
                    await table.put(b"%d" % number, b"v")
                except DuramenError as error:
                    return error
                acknowledged.append(number)
            raise AssertionError("nobody refused the token that was revoked")

        writers = [asyncio.create_task(write(worker)) for worker in range(8)]
        async with within(60):
            await until(lambda: len(acknowledged) >= 100)
            await root.revoke_token("alice", made.token_id)
            ends = await asyncio.gather(*writers)
    assert all(isinstance(end, Unauthenticated) for end in ends), ends
    again = (await root.add_token("alice")).token
    async with await aio.connect(here.target, token=again) as database:
        found = await database.table("orders").get_many([b"%d" % number for number in acknowledged], level="strong")
        assert found == [b"v"] * len(acknowledged), "what was acknowledged before stays"


async def test_secrets_are_in_no_log_answer_or_error(
    here: UsersHere, root: UsersConnection, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        made = await root.add_user("alice", password=PASSWORD, grants=["read orders"], with_token=True)
        await root.set_password("alice", OTHER_PASSWORD)
        token = await root.add_token("alice")
        errors = [
            await refusal(root.add_user("alice", password=PASSWORD, with_token=True)),
            await refusal(root.set_password("bob", OTHER_PASSWORD)),
            await refusal(root.set_password("alice", PASSWORD[:7])),
            await refusal((await here.by(user="alice", password=PASSWORD)).users()),
        ]
    said = caplog.text + "".join(str(error) for error in errors) + str(await root.users())
    async with await aio.connect(here.target, token=token.token) as database:
        said += repr(database.context._address) + repr(TokenCredentials(token.token, "alice"))
    catalog = here.server.data_plane.catalog
    said += repr(catalog.map)
    written = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    secrets = [PASSWORD, OTHER_PASSWORD, made.token, token.token, made.token[17:81], token.token[17:81]]
    for secret in secrets:
        assert secret not in said, "a secret is shown"
        assert secret.encode() not in written, "a secret is on the disk"
    assert "$argon2id$" not in str(await root.users())
    assert "$argon2id$" not in caplog.text


async def test_every_server_of_a_cluster_manages_users(tmp_path: Path) -> None:
    """But for the first user: with one, servers without certificates would refuse each other's calls."""
    async with AsyncExitStack() as opened:
        log = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0)
        opened.push_async_callback(log.close)
        url = f"grpc://127.0.0.1:{log.port}"
        node = await NodeRole.open(tmp_path / "n1", node_id="n1", log_url=url, host="127.0.0.1", port=0)
        opened.push_async_callback(node.close)
        router = await RouterRole.open(log_url=url, host="127.0.0.1", port=0)
        opened.push_async_callback(router.close)
        targets = [f"127.0.0.1:{node.port}", f"127.0.0.1:{router.port}"]
        for number, target in enumerate(targets):
            async with UsersConnection(target, timeout=patience_s(30)) as users:
                await users.add_role(f"role{number}", ["read *"])
                assert [role.role for role in (await users.users()).roles] == [f"role{n}" for n in range(number + 1)]
        async with UsersConnection(targets[0], timeout=patience_s(30)) as users:
            refused = await refusal(users.add_user("root", grants=["admin *"], with_token=True))
            assert isinstance(refused, CommandRejected)
            assert "--certs DIR" in refused.message
        # Who has the log makes one nevertheless: servers that start later say why they cannot.
        await node.data_plane.catalog.submit(AddUser("root", node.data_plane.catalog.map.version, grants=("admin *",)))
        with pytest.raises(InvalidRequest, match="could not prove to the others"):
            await RouterRole.open(log_url=url, host="127.0.0.1", port=0)
        with pytest.raises(InvalidRequest, match="could not prove to the others"):
            await NodeRole.open(tmp_path / "n2", node_id="n2", log_url=url, host="127.0.0.1", port=0)


async def test_the_users_of_the_kit_are_those_of_the_service(here: UsersHere) -> None:
    made = WithUsers(here.server)
    token = await made.add_user("root", "admin *")
    assert (await (await here.by(token=token)).who_am_i()).user == "root"
