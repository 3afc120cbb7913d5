"""Tokens that are none, of other tables, of places that cannot be: refused by every call that takes one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kit.client.streams import drained
from kit.deadlines import within

import duramen
from duramen.client.database import Database
from duramen.client.table import Table
from duramen.server.roles.all_in_one import SingleServer as Server
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.tokens import Token

pytestmark = pytest.mark.embedded_log_only  # they are refused before the log is asked

TOKEN_CALLS: list[Callable[[Table, Any], Awaitable[Any]]] = [
    lambda table, token: table.get(b"k", after=token),
    lambda table, token: table.get_many([b"k"], after=token),
    lambda table, token: drained(table.scan(after=token)),
    lambda table, token: anext(table.watch(after=token)),
]


@pytest.fixture
def machine(emptied_server: Server) -> Server:
    """What is refused leaves nothing behind: one server for all of these tests."""
    return emptied_server


@pytest.mark.parametrize("call", TOKEN_CALLS)
async def test_tokens_that_are_none(remote: Database, flights: Table, call: Any) -> None:
    good = (await flights.put(b"k", b"v")).token
    for token, message in (
        ("", r"a text of length 0 is no token: tokens begin with 'd1\.' and have at most \d+ characters"),
        ("rubbish", r"is no token"),
        ("d1.", r"no whole token"),
        ("d1.!!!", r"is no token"),
        (good[:-1], r"is no token|no whole token.*cut while copying"),
        (good[:-4] + "AAAA", r"no whole token.*cut while copying"),
        (5, r"a token is text, this is int"),
        (b"d1.x", r"a token is text, this is bytes"),
    ):
        with pytest.raises(duramen.InvalidToken, match=message):
            await call(flights, token)
        if not isinstance(token, int):
            with pytest.raises(duramen.InvalidToken):
                remote.merge_token(token)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", TOKEN_CALLS)
async def test_tokens_of_other_tables(remote: Database, flights: Table, call: Any) -> None:
    ships = await remote.create_table("ships", partitions=1)
    other = (await ships.put(b"k", b"v")).token
    with pytest.raises(
        duramen.InvalidToken, match="it comes from another table, or from one that was dropped"
    ) as caught:
        await call(flights, other)
    assert caught.value.fields["table"] != caught.value.fields["token_table"]
    old = (await flights.put(b"k", b"v")).token
    await remote.drop_table("flights")
    again = await remote.create_table("flights", partitions=2)
    with pytest.raises(duramen.InvalidToken, match="dropped and created again"):
        await call(again, old)


@pytest.mark.parametrize("call", TOKEN_CALLS)
async def test_tokens_that_name_what_cannot_be(flights: Table, call: Any) -> None:
    table_id = (await flights.put(b"k", b"v")).table_id
    for partition, offset in ((99, 0), (0, (1 << 63) - 1)):
        with pytest.raises(duramen.InvalidToken, match="it was not made here"):
            await call(flights, Token.of(table_id, Partition(partition), Offset(offset)))


@pytest.mark.parametrize("call", TOKEN_CALLS)
async def test_tokens_beyond_the_end_are_refused_at_once(flights: Table, call: Any) -> None:
    done = await flights.put(b"k", b"v")
    token = Token.of(done.table_id, done.partition, Offset(1000))
    async with within(5):  # the call itself would take ten
        with pytest.raises(duramen.TokenAhead, match=r"1000|1001") as caught:
            await call(flights, str(token))
    assert caught.value.fields["latest"] == 0
    assert caught.value.fields["partition"] == done.partition


async def test_a_token_of_a_table_made_again_since_we_found_it(
    remote: Database, flights: Table, connected: Any
) -> None:
    """Our handle is older than the table; the token is right and our idea of the table is not."""
    await flights.put(b"k", b"old")
    other = await connected()
    await other.drop_table("flights")
    done = await (await other.create_table("flights", partitions=3)).put(b"k", b"new")
    assert await flights.get(b"k", after=done.token) == b"new"
