"""Rights on a table whose keys have fields: on the keys that are stored, however a client writes them."""

from __future__ import annotations

import base64

import pytest
from kit.resp.raw_client import Raw, RawError, Status
from kit.resp.server_thread import ServerThread

from log_tier.rows.definition import TableDefinition
from log_tier.rows.key_fields import KeyField
from log_tier.rows.table_spec import TableSpec
from log_tier.rows.tuple_key import key_range

PASSWORD = "correct horse battery"

TRIPS = TableDefinition(key=(KeyField("carrier", "str"), KeyField("flight", "int")), value="str", partition_by=1)


@pytest.fixture(scope="module")
def trips(guarded: ServerThread) -> str:
    guarded.run(lambda: guarded.data_plane.create_table(TableSpec("trips", 2, definition=TRIPS), timeout=20))
    stored = base64.b64encode(key_range("UA").start).decode()
    guarded.add_user("ua", f"read,write trips --key base64:{stored}", password=PASSWORD)
    guarded.add_user("text", 'read,write trips --key ["UA"', password=PASSWORD)
    return "trips"


def logged_in(raw: Raw, user: str, table: str) -> None:
    assert raw.call("AUTH", user, PASSWORD) == Status("OK")
    assert raw.call("SELECT", table) == Status("OK")


def test_a_right_on_stored_keys(guarded: ServerThread, trips: str) -> None:
    with guarded.connect() as raw:
        logged_in(raw, "ua", trips)
        assert raw.call("SET", '[ "UA", 1 ]', "v") == Status("OK")
        assert raw.call("GET", '["UA",1]') == b"v"
        assert raw.call("KEYS", '\\["UA",*') == [b'["UA",1]']
        for command in (
            ("GET", '["AA",1]'),
            ("SET", '["AA",1]', "v"),
            ("MGET", '["UA",1]', '["AA",1]'),
            ("WATCH", '["AA",1]'),
            ("KEYS", "*"),
            ("SCAN", "0", "MATCH", '\\["A*'),
            ("DURAMEN.SETV", '["AA",1]', "v", "-1"),
        ):
            refused = raw.call(*command)
            assert isinstance(refused, RawError), command
            assert refused.text.startswith("NOPERM"), command


def test_a_right_on_what_only_looks_like_the_text_of_keys(guarded: ServerThread, trips: str) -> None:
    with guarded.connect() as raw:
        logged_in(raw, "text", trips)
        for command in (("GET", '["UA",1]'), ("SET", '["UA",1]', "v"), ("KEYS", '\\["UA",*'), ("WATCH", '["UA",1]')):
            refused = raw.call(*command)
            assert isinstance(refused, RawError), command
            assert refused.text.startswith("NOPERM"), command
