"""A consistency token that names a table its caller may not read tells nothing of it, not even that it is there."""

from __future__ import annotations

from typing import Final

import pytest
from kit.cluster.one_machine import NO_TABLE
from kit.resp.raw_client import RawError, Status
from kit.resp.server_thread import ServerThread

from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.tokens import Token

OK: Final = Status("OK")
FAR: Final = Offset(1 << 40)


def tables(guarded: ServerThread) -> dict[str, TableId]:
    return {ref.name: ref.id for ref in guarded.run(lambda: guarded.data_plane.list_tables(timeout=20))}


def answers(guarded: ServerThread, user: str, table: TableId, offset: Offset, *, session: bool) -> list[str]:
    """What the commands answer that take a token or obey one. The table's id is in the caller's own token."""
    token = Token({table: {Partition(0): offset}}, session=session)
    with guarded.connect_as(user) as raw:
        said = [raw.call("SET", "eu:key", "1"), raw.call("DURAMEN.AFTER", str(token)), raw.call("GET", "eu:key")]
        said += [raw.call("DURAMEN.LEVEL", "strong"), raw.call("GET", "eu:key"), raw.call("DURAMEN.TOKEN")[:3]]
    return [str(each).replace(table, "ID") for each in said]


@pytest.mark.parametrize("session", [False, True], ids=["a token", "a session's token"])
@pytest.mark.parametrize("offset", [Offset(0), FAR], ids=["the first offset", "one far ahead"])
def test_a_table_that_is_there_answers_as_one_that_is_not(
    guarded: ServerThread, name: str, offset: Offset, session: bool
) -> None:
    guarded.add_user(name, "read,write default --key eu:")
    found = answers(guarded, name, tables(guarded)["orders"], offset, session=session)
    assert found == answers(guarded, name, NO_TABLE, offset, session=session)
    assert ("it comes from another table" in found[1]) is not session, "a session names all tables that it has seen"
    assert found[2] == found[4] == str(b"1"), "reads of its own table do not wait for another one"
    assert "orders" not in " ".join(found)


def test_its_own_table_waits(guarded: ServerThread, name: str) -> None:
    """What the tests above would miss: a token that counts."""
    guarded.add_user(name, "read,write default --key eu:")
    with guarded.connect_as(name) as raw:
        assert raw.call("SET", "eu:key", "1") == OK
        assert raw.call("DURAMEN.AFTER", str(Token({tables(guarded)["default"]: {Partition(0): FAR}}))) == OK
        refused = raw.call("GET", "eu:key")
    assert isinstance(refused, RawError)
    assert str(FAR) in refused.text
