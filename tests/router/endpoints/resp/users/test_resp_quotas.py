"""Quotas at the Redis protocol: what is over is refused in its place, nothing waits, and nothing is counted twice."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

import pytest
from kit.deadlines import until, wait_until
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.trust.trust_commands import GrantRights, RevokeRights, SetQuota
from router.endpoints.resp.connection.admission import CountedCommand
from router.endpoints.resp.connection.client import Client

OK = Status("OK")
GRANT = "read,write default --key eu:"


def is_over(reply: object) -> bool:
    return isinstance(reply, RawError) and reply.text.startswith("TRYAGAIN ")


def pipelined(raw: Raw, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The replies to commands that are sent together."""
    raw.send(b"".join(packed(*each) for each in commands))
    return [raw.reply() for _ in commands]


@pytest.mark.parametrize("command", [("GET", "eu:1"), ("SET", "eu:1", "v"), ("INCR", "eu:n"), ("PING",)], ids=str)
def test_a_pipeline_over_its_quota_is_refused_in_place(
    guarded: ServerThread, name: str, command: tuple[str, ...]
) -> None:
    guarded.add_user(name, GRANT)
    guarded.submit(lambda seen: SetQuota(f"user:{name}", seen, calls_s=5))
    with guarded.connect_as(name) as raw, guarded.connect_as("alice") as other:
        replies = pipelined(raw, [command] * 40)
        assert len(replies) == 40
        assert not any(map(is_over, replies[:5])), replies[:5]
        refused = list(filter(is_over, replies))
        assert len(refused) >= 20, "five, and what comes back meanwhile"
        assert f"user:{name} has a quota of 5 calls a second at this server: try again in" in refused[0].text
        assert not any(map(is_over, pipelined(other, [command] * 40))), "another user has none"
        wait_until(lambda: not is_over(raw.call(*command)))


def test_a_quota_that_comes_counts_connections_that_are_open(guarded: ServerThread, name: str) -> None:
    """Also one whose reads a reader process has answered by itself."""
    guarded.add_user(name, "read,write default")
    with guarded.connect_as(name) as raw:
        assert raw.call("SET", f"{name}:k", "v") == OK
        assert [raw.call("GET", f"{name}:k") for _ in range(5)] == [b"v"] * 5
        guarded.submit(lambda seen: SetQuota(f"user:{name}", seen, calls_s=2))
        wait_until(lambda: is_over(raw.call("GET", f"{name}:k")))
        guarded.submit(lambda seen: SetQuota(f"user:{name}", seen))
        assert [raw.call("GET", f"{name}:k") for _ in range(40)] == [b"v"] * 40


def test_what_is_judged_again_is_counted_once(guarded: ServerThread, name: str) -> None:
    grant = "read default --key eu:"
    guarded.add_user(name, grant)
    guarded.submit(lambda seen: SetQuota(f"user:{name}", seen, calls_s=6))
    with guarded.connect_as(name):

        async def admitted_twice() -> list[bytes]:
            admission = next(
                each.admission
                for each in guarded.server.clients.values()
                if isinstance(each, Client) and each.admission is not None and each.caller.name == name
            )
            queue = admission._queue
            admission.arrived.extend([b"GET", b"eu:1"] for _ in range(6))
            assert admission.admit()
            first = [each[0] for each in queue]
            for change in (RevokeRights, GrantRights):
                await guarded.catalog.submit(change(name, guarded.catalog.map.version, grant))
            await until(lambda: admission._filled != guarded.server.trust_changes)
            admission.renew()
            assert [type(each) for each in admission.arrived] == [CountedCommand] * 6
            assert admission.admit()
            second = [each[0] for each in queue]
            queue.clear()
            return first + second

        assert guarded.run(admitted_twice) == [b"GET"] * 12


def test_a_transaction_is_counted_once_and_refused_as_a_whole(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name, GRANT)
    guarded.submit(lambda seen: SetQuota(f"user:{name}", seen, calls_s=3))
    key = f"eu:{name}"
    with guarded.connect_as(name) as raw, guarded.connect_as("root") as root:
        replies = pipelined(raw, [("MULTI",), *[("SET", key, n) for n in range(40)], ("EXEC",)])
        assert replies[-1] == [OK] * 40, "what was let in goes on, and is paid for afterwards"
        replies = pipelined(raw, [("MULTI",), *[("SET", key, "refused")] * 40, ("EXEC",)])
        assert replies[0] == OK
        assert all(map(is_over, replies[1:-1]))
        assert float(replies[1].text.partition("try again in ")[2].partition(" s")[0]) > 10
        assert replies[-1].text.startswith("EXECABORT")
        assert root.call("GET", key) == b"39"


def test_a_transaction_that_is_aborted_is_let_in_no_more(guarded: ServerThread, name: str) -> None:
    """What follows is never run, so it would be no transaction's length that bounds it."""
    guarded.add_user(name, GRANT)
    guarded.submit(lambda seen: SetQuota(f"user:{name}", seen, calls_s=3))
    with guarded.connect_as(name) as raw:
        assert pipelined(raw, [("MULTI",), ("SET", "eu:1", "v")]) == [OK, Status("QUEUED")]
        assert isinstance(raw.call("SET", "eu:1"), RawError)
        assert any(map(is_over, pipelined(raw, [("SET", "eu:1", "v")] * 40)))


@pytest.mark.parametrize("last", ["EXEC", "DISCARD"])
@pytest.mark.parametrize("bounds", [{"calls_s": 4}, {"bytes_in_s": 60}, {"bytes_out_s": 60}], ids=str)
def test_transactions_that_were_refused_get_through_when_they_are_tried_again(
    guarded: ServerThread, name: str, bounds: dict[str, int], last: str
) -> None:
    """No try that is refused may take what the next one needs: neither its first commands, nor its replies."""
    guarded.add_user(name, GRANT)
    guarded.submit(lambda seen: SetQuota(f"user:{name}", seen, **bounds))
    refused = 0
    with guarded.connect_as(name) as raw:

        def is_done() -> bool:
            nonlocal refused
            queued = pipelined(raw, [("MULTI",), *[("SET", "eu:1", "v")] * 8])
            is_refused = any(map(is_over, queued))
            refused += is_refused
            reply = raw.call(last if is_refused else "EXEC")
            assert is_refused or reply == [OK] * 8
            return not is_refused

        for _ in range(3):
            wait_until(is_done)
    assert refused > 0


@pytest.mark.parametrize(("bound", "words"), [("bytes_in_s", "bytes of requests"), ("bytes_out_s", "bytes of replies")])
@pytest.mark.parametrize("size", [5_000, 200_000])
def test_bytes_are_counted_and_what_is_too_long_passes(
    guarded: ServerThread, name: str, bound: str, words: str, size: int
) -> None:
    guarded.add_user(name, GRANT)
    guarded.submit(lambda seen: SetQuota(f"user:{name}", seen, **{bound: 100}))
    key = f"eu:{name}"
    with guarded.connect_as("root") as root, guarded.connect_as(name) as raw:
        assert root.call("SET", key, "v" * size) == OK
        if bound == "bytes_in_s":
            assert raw.call("SET", key, "w" * size) == OK
        else:
            assert pipelined(raw, [("GET", key), ("GET", key)])[0] == b"v" * size
        reply = raw.call("GET", key)
        assert is_over(reply)
        assert f"user:{name} has a quota of 100 {words} a second" in reply.text


def test_the_replies_that_refuse_take_nothing(guarded: ServerThread, name: str) -> None:
    """A refusal has 150 bytes: a client that asks too often would pay for being refused, and never get through."""
    guarded.add_user(name, GRANT)
    guarded.submit(lambda seen: SetQuota(f"user:{name}", seen, bytes_out_s=200))
    key = f"eu:{name}"
    with guarded.connect_as("root") as root, guarded.connect_as(name) as raw:
        assert root.call("SET", key, "v" * 5000) == OK
        assert raw.call("GET", key) == b"v" * 5000
        refused = pipelined(raw, [("GET", key)] * 40)
        assert all(map(is_over, refused))
        waits = [float(each.text.partition("try again in ")[2].partition(" s")[0]) for each in refused]
        assert is_over(again := raw.call("GET", key))
        assert float(again.text.partition("try again in ")[2].partition(" s")[0]) <= waits[0]


def test_a_table_has_a_quota_that_its_users_share(guarded: ServerThread, name: str) -> None:
    for user in (name, f"{name}b"):
        guarded.add_user(user, "read orders", "read default")
    guarded.submit(lambda seen: SetQuota("table:orders", seen, calls_s=1))
    try:
        with guarded.connect_as(name) as first, guarded.connect_as(f"{name}b") as second:
            for raw in (first, second):
                assert raw.call("SELECT", "orders") == OK
            assert any(map(is_over, pipelined(first, [("GET", "k")] * 20)))
            assert any(map(is_over, pipelined(second, [("GET", "k")] * 20)))
            assert second.call("SELECT", "default") == OK, "it is never refused: what follows would go elsewhere"
            assert not any(map(is_over, pipelined(second, [("GET", "k")] * 20)))
    finally:
        guarded.submit(lambda seen: SetQuota("table:orders", seen))


def test_who_sends_what_is_refused_takes_no_turns_of_others(guarded: ServerThread, name: str) -> None:
    """Two connections of one user, each with a long pipeline over its quota; nothing of it is lost or out of order."""
    guarded.add_user(name, GRANT)
    guarded.submit(lambda seen: SetQuota(f"user:{name}", seen, calls_s=5))
    commands = packed("SET", "eu:1", "v") * 3_000
    with guarded.connect_as(name) as one, guarded.connect_as(name) as two, guarded.connect_as("alice") as quiet:
        began_s = monotonic()
        for raw in (one, two):
            raw.send(commands)
        one.reply()
        for number in range(300):
            assert quiet.call("SET", "eu:quiet", f"{number}") == OK
            assert quiet.call("GET", "eu:quiet") == b"%d" % number
        come = [arrived(raw) for raw in (one, two)]
        seconds = monotonic() - began_s
        assert sum(come) < 300 + 110 * seconds, f"{come} in {seconds:.1f} s: 5 a second are done, and 100 are refused"
    with guarded.connect_as("alice") as raw:
        assert raw.call("PING") == Status("PONG"), "connections that end while nobody listens to them end"


def arrived(raw: Raw) -> int:
    """How many replies are here, without waiting for more."""
    raw.socket.setblocking(False)
    found = 0
    try:
        while True:
            raw.reply()
            found += 1
    except BlockingIOError:
        return found
