"""A table of eight partitions: many keys at once, what must be together, order, walks."""

from __future__ import annotations

from typing import Any

from kit.resp.raw_client import RawError, Status, packed
from kit.resp.server_thread import ServerThread

OK = Status("OK")


def test_many_keys(wide: ServerThread, key: str) -> None:
    with wide.connect() as raw:
        names = [f"{key}:{number}" for number in range(50)]
        assert raw.call("MSET", *(word for name in names for word in (name, f"v{name}"))) == OK
        assert raw.call("MGET", *names, "absent") == [f"v{name}".encode() for name in names] + [None]
        assert raw.call("EXISTS", *names, names[0]) == 51
        assert raw.call("DEL", *names[:20], names[0]) == 20
        assert raw.call("UNLINK", *names) == 30
        assert raw.call("MGET", *names) == [None] * 50


def test_one_slot_for_what_must_be_together(wide: ServerThread, key: str) -> None:
    cross = RawError("CROSSSLOT Keys in request don't hash to the same slot")
    with wide.connect() as raw:
        assert raw.call("MSETNX", *(word for n in range(20) for word in (f"{key}{n}", "1"))) == cross
        assert raw.call("MSETNX", f"{{{key}}}a", "1", f"{{{key}}}b", "2") == 1
        assert raw.call("MULTI") == OK
        for number in range(20):
            assert raw.call("SET", f"{key}{number}", "1") == Status("QUEUED")
        assert raw.call("EXEC") == cross
        assert raw.call("EXISTS", *(f"{key}{number}" for number in range(20))) == 0
        raw.call("MULTI")
        raw.call("INCR", f"{{{key}}}a")
        raw.call("GET", f"{{{key}}}b")
        assert raw.call("EXEC") == [2, b"2"]


def test_pipelines_keep_their_order(wide: ServerThread, key: str) -> None:
    with wide.connect() as raw:
        sent: list[bytes] = []
        expected: list[Any] = []
        for number in range(2000):
            name = f"{key}:{number % 7}"
            kind = number % 5
            if kind < 2:
                sent.append(packed("SET", name, number))
                expected.append(OK)
            elif kind == 2:
                last = max(n for n in range(number) if n % 7 == number % 7 and n % 5 < 2) if number > 20 else None
                sent.append(packed("GET", name))
                expected.append(b"%d" % last if last is not None else ...)
            elif kind == 3:
                sent.append(packed("PING", number))
                expected.append(b"%d" % number)
            else:
                sent.append(packed("STRLEN", f"{key}:absent"))
                expected.append(0)
        raw.send(b"".join(sent))
        for number, wanted in enumerate(expected):
            found = raw.reply()
            assert wanted is ... or found == wanted, number


def test_walks_see_every_key_once(wide: ServerThread, key: str) -> None:
    names = {f"walk-{key}:{number}".encode() for number in range(500)}
    with wide.connect() as raw:
        raw.call("SELECT", "5")
        raw.call("MSET", *(word for name in names for word in (name, b"v")))
        assert raw.call("DBSIZE") == len(names)
        found, cursor, pages = [], b"0", 0
        while True:
            cursor, page = raw.call("SCAN", cursor, "COUNT", "37")
            found += page
            pages += 1
            if cursor == b"0":
                break
        assert pages >= len(names) // 37
        assert sorted(found) == sorted(names)
        assert set(raw.call("KEYS", f"walk-{key}:1?")) == {n for n in names if len(n) == len(f"walk-{key}:10")
                                                           and n.split(b":")[-1].startswith(b"1")}  # fmt: skip
        cursor, page = raw.call("SCAN", "0", "MATCH", "*:499", "COUNT", "10000")
        assert (cursor, page) == (b"0", [f"walk-{key}:499".encode()])
        assert raw.call("SCAN", "0", "TYPE", "list", "COUNT", "1000")[1] == []
        assert raw.call("SCAN", "12345").text.startswith("ERR invalid cursor")
        seen = {raw.call("RANDOMKEY") for _ in range(50)}
        assert seen <= names
        assert len(seen) > 1
        raw.call("SELECT", "6")
        assert raw.call("RANDOMKEY") is None
