"""A table that is dropped while a connection has it selected."""

from __future__ import annotations

import pytest
from kit.cluster.one_machine import DEADLINE_S
from kit.resp.raw_client import Status
from kit.resp.server_thread import ServerThread

from log_tier.rows.table_spec import TableSpec

OK = Status("OK")
NAME = "dropped"


@pytest.mark.parametrize(
    "words", [("SET", "k", "2"), ("GET", "k"), ("INCR", "n"), ("MSET", "k", "2", "l", "2")], ids=" ".join
)
def test_the_first_command_behind_a_drop_says_which_table_it_was(server: ServerThread, words: tuple[str, ...]) -> None:
    def make() -> None:
        server.run(lambda: server.data_plane.create_table(TableSpec(NAME, partitions=2), timeout=DEADLINE_S))

    make()
    with server.connect() as raw:
        assert (raw.call("SELECT", NAME), raw.call("SET", "k", "1")) == (OK, OK)
        server.run(lambda: server.data_plane.drop_table(NAME, timeout=DEADLINE_S))
        refused = raw.call(*words).text
        assert refused.startswith(f"ERR there is no table '{NAME}' "), refused
        assert "it was dropped" in refused, refused
        assert raw.call("SET", "k", "3").text.startswith(f"ERR there is no table '{NAME}'; the tables are: ")
        make()
        assert (raw.call("SET", "k", "4"), raw.call("GET", "k")) == (OK, b"4"), "one of that name is used"
    server.run(lambda: server.data_plane.drop_table(NAME, timeout=DEADLINE_S))


def test_who_selects_a_table_that_was_made_again_has_the_new_one(server: ServerThread) -> None:
    """Nobody had met the drop: the first write of a connection that selected the new one was refused for the old."""
    for value in (b"1", b"2", b"3"):
        server.run(lambda: server.data_plane.create_table(TableSpec(NAME, partitions=2), timeout=DEADLINE_S))
        with server.connect() as raw:
            assert raw.call("SELECT", NAME) == OK
            assert raw.call("GET", "k") is None
            assert (raw.call("SET", "k", value), raw.call("GET", "k")) == (OK, value)
        server.run(lambda: server.data_plane.drop_table(NAME, timeout=DEADLINE_S))
        server.run(lambda: server.data_plane.create_table(TableSpec(NAME, partitions=2), timeout=DEADLINE_S))
        with server.connect() as raw:
            assert raw.call("SELECT", NAME) == OK
            assert (raw.call("SET", "k", value + b"0"), raw.call("GET", "k")) == (OK, value + b"0")
        server.run(lambda: server.data_plane.drop_table(NAME, timeout=DEADLINE_S))


@pytest.mark.parametrize(
    "words",
    [("SET", "k", "2"), ("SET", "k", "2", "EX", "100"), ("MSET", "k", "2", "l", "2"), ("GET", "k"), ("INCR", "n")],
    ids=" ".join,
)
def test_a_connection_goes_on_with_the_table_that_was_made_again(server: ServerThread, words: tuple[str, ...]) -> None:
    """A SET was refused once, for the table that was dropped; a GET and an INCR went on."""
    name = f"again{abs(hash(words))}"

    def make() -> None:
        server.run(lambda: server.data_plane.create_table(TableSpec(name, partitions=2), timeout=DEADLINE_S))

    make()
    with server.connect() as raw:
        assert (raw.call("SELECT", name), raw.call("SET", "k", "1")) == (OK, OK)
        server.run(lambda: server.data_plane.drop_table(name, timeout=DEADLINE_S))
        make()
        assert raw.call(*words) == {"SET": OK, "MSET": OK, "GET": None, "INCR": 1}[words[0]]
    server.run(lambda: server.data_plane.drop_table(name, timeout=DEADLINE_S))
