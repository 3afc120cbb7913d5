"""What Redis cannot be compared with: tables, tokens, versions, walks over keys, notifications, the server itself."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from door_thread import DoorThread
from one_machine import held, puts
from raw_client import Raw, RawError, Status

from log_tier.errors import InvalidRequest, PortInUse
from log_tier.identifiers import Partition
from router.resp_door.sockets import DoorSettings, DoorSockets

OK = Status("OK")


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoorThread]:
    """A door whose tables have eight partitions."""
    running = DoorThread(tmp_path_factory.mktemp("wide"), DoorSettings(port=0, table_partitions=8)).start()
    yield running
    running.close()


def test_tables_by_name_and_number(door: DoorThread, raw: Raw, key: str) -> None:
    door.run(lambda: door.front.create_table(f"named-{key}", partitions=2, timeout=10))
    assert raw.call("SET", key, "default") == OK
    assert raw.call("SELECT", f"named-{key}") == OK
    assert raw.call("GET", key) is None
    assert raw.call("SET", key, "named") == OK
    assert raw.call("SELECT", "3") == OK
    assert raw.call("SET", key, "three") == OK
    assert raw.call("SELECT", "0") == OK
    assert raw.call("GET", key) == b"default"
    assert raw.call("SELECT", "db3") == OK
    assert raw.call("GET", key) == b"three"
    missing = raw.call("SELECT", "nothing-of-that-name")
    assert missing.text.startswith("ERR there is no table 'nothing-of-that-name'")
    assert raw.call("GET", key) == b"three", "a SELECT that failed has changed nothing"
    assert raw.call("SELECT", "16") == RawError("ERR DB index is out of range")
    assert raw.call("SELECT", "-1") == RawError("ERR DB index is out of range")
    assert raw.call("SELECT", "no table!").text.startswith("ERR ")


def test_a_table_that_was_dropped_is_made_again(door: DoorThread, raw: Raw, key: str) -> None:
    raw.call("SELECT", "7")
    assert raw.call("SET", key, "1") == OK
    door.run(lambda: door.front.drop_table("db7", timeout=10))
    answers = [raw.call("GET", key) for _ in range(3)]
    assert answers[-1] is None
    assert raw.call("SET", key, "2") == OK
    assert raw.call("GET", key) == b"2"


def test_keys_and_values_have_limits(raw: Raw, key: str) -> None:
    too_long = RawError("ERR keys have 1 to 511 bytes here")
    for name in ("", "k" * 512):
        for words in (
            ("GET", name),
            ("SET", name, "v"),
            ("SET", name, "v", "EX", "9"),
            ("INCR", name),
            ("MGET", key, name),
        ):
            assert raw.call(*words) == too_long
    assert raw.call("SET", "k" * 511, "v") == OK
    assert raw.call("GET", "k" * 511) == b"v"
    raw.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4194305\r\n")
    assert raw.reply() == RawError("ERR Protocol error: invalid bulk length")
    assert raw.ended()


def test_the_largest_value(raw: Raw, key: str) -> None:
    value = bytes(range(256)) * (4 * 1024 * 4)
    assert raw.call("SET", key, value) == OK
    assert raw.call("GET", key) == value
    assert raw.call("STRLEN", key) == len(value)
    assert raw.call("APPEND", key, "x").text.startswith("ERR string exceeds maximum allowed size")
    assert raw.call("GETRANGE", key, "-2", "-1") == b"\xfe\xff"


class TestPartitions:
    """A table of eight."""

    def test_many_keys(self, wide: DoorThread, key: str) -> None:
        with wide.connect() as raw:
            names = [f"{key}:{number}" for number in range(50)]
            assert raw.call("MSET", *(word for name in names for word in (name, f"v{name}"))) == OK
            assert raw.call("MGET", *names, "absent") == [f"v{name}".encode() for name in names] + [None]
            assert raw.call("EXISTS", *names, names[0]) == 51
            assert raw.call("DEL", *names[:20], names[0]) == 20
            assert raw.call("UNLINK", *names) == 30
            assert raw.call("MGET", *names) == [None] * 50

    def test_one_slot_for_what_must_be_together(self, wide: DoorThread, key: str) -> None:
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

    def test_pipelines_keep_their_order(self, wide: DoorThread, key: str) -> None:
        from raw_client import packed

        with wide.connect() as raw:
            sent, expected = [], []
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

    def test_walks_see_every_key_once(self, wide: DoorThread, key: str) -> None:
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


class TestCounters:
    def test_every_increment_counts_once(self, door: DoorThread, key: str) -> None:
        """Many clients, one key, and others that write it without asking."""
        clients, each = 8, 100

        def count() -> None:
            with door.connect() as raw:
                for _ in range(each):
                    assert isinstance(raw.call("INCR", key), int)

        threads = [threading.Thread(target=count) for _ in range(clients)]
        for thread in threads:
            thread.start()
        with door.connect() as raw:
            for thread in threads:
                thread.join()
            assert raw.call("GET", key) == b"%d" % (clients * each)

    def test_replies_are_all_different(self, wide: DoorThread, key: str) -> None:
        replies: list[int] = []

        def count() -> None:
            with wide.connect() as raw:
                replies.extend([raw.call("INCRBY", key, "3") for _ in range(50)])

        threads = [threading.Thread(target=count) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(replies) == list(range(3, 3 * 300 + 1, 3))

    def test_a_lock_is_taken_once(self, door: DoorThread, key: str) -> None:
        taken: list[int] = []

        def take(number: int) -> None:
            with door.connect() as raw:
                if raw.call("SET", key, number, "NX", "PX", "100000") == OK:
                    taken.append(number)

        threads = [threading.Thread(target=take, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 1

    def test_conditions_hold_against_another_writer_of_the_log(self, door: DoorThread, raw: Raw, key: str) -> None:
        """What comes into the log between the read and the write makes the command run again."""
        assert raw.call("SET", key, "10") == OK
        table = door.run(lambda: door.door.tables.open("default"))
        replica = door.front.node.replica(table.ref.id, Partition(0))
        before = door.door.writer.records
        with held(replica):
            # Not by this door, so it does not know; and not applied, so the increment reads 10.
            batch = puts((key.encode(), b"20"))
            door.run(lambda: door.front.log.append(table.ref.id, Partition(0), batch))
            raw.send(b"INCR %b\r\n" % key.encode())
            deadline = time.monotonic() + 20
            while door.door.writer.records == before:
                assert time.monotonic() < deadline, "the increment was not written"
                time.sleep(0.001)
        assert raw.reply() == 21
        assert door.door.writer.records == before + 2, "it was rejected once, and written again"


class TestTokens:
    def test_a_write_is_there_for_every_connection(self, door: DoorThread, key: str) -> None:
        with door.connect() as one, door.connect() as other:
            for number in range(200):
                assert one.call("SET", key, number) == OK
                assert other.call("GET", key) == b"%d" % number

    def test_reads_wait_for_what_was_acknowledged(self, door: DoorThread, raw: Raw, key: str) -> None:
        assert raw.call("SET", key, "old") == OK
        assert raw.call("SET", f"{key}-other", "1") == OK
        assert raw.call("GET", key) == b"old"
        table = door.run(lambda: door.door.tables.open("default"))
        replica = door.front.node.replica(table.ref.id, Partition(0))
        with door.connect() as reader:
            with held(replica):
                assert raw.call("SET", key, "new") == OK
                assert reader.call("GET", f"{key}-other") == b"1", "other keys need not wait"
                reader.send(b"GET %b\r\n" % key.encode())
            assert reader.reply() == b"new"

    def test_a_token_travels(self, door: DoorThread, raw: Raw, key: str) -> None:
        raw.call("SET", key, "1")
        text = raw.call("DURAMEN.TOKEN")
        with door.connect() as other:
            assert other.call("DURAMEN.AFTER", text) == OK
            assert other.call("GET", key) == b"1"
            assert other.call("DURAMEN.AFTER", "d1.nonsense").text.startswith("ERR ")
            assert other.call("DURAMEN.AFTER", text + b"x").text.startswith("ERR ")

    def test_a_token_of_the_future_is_refused(self, door: DoorThread, raw: Raw, key: str) -> None:
        from log_tier.identifiers import Offset
        from log_tier.tokens import Token

        raw.call("SET", key, "1")
        table = door.run(lambda: door.door.tables.open("default"))
        ahead = str(Token.of(table.ref.id, Partition(0), Offset(1 << 40)))
        assert raw.call("DURAMEN.AFTER", ahead) == OK
        assert "the log ends at" in raw.call("GET", key).text
        with door.connect() as other:
            assert other.call("GET", key) == b"1", "nobody else is kept waiting"

    @pytest.mark.parametrize("level", ["session", "eventual", "strong"])
    def test_levels(self, raw: Raw, key: str, level: str) -> None:
        assert raw.call("DURAMEN.LEVEL", level) == OK
        assert raw.call("DURAMEN.LEVEL") == level.encode()
        assert raw.call("SET", key, "1") == OK
        assert raw.call("INCR", key) == 2
        assert raw.call("GET", key) == b"2"
        assert raw.call("EXISTS", key) == 1
        assert raw.call("DURAMEN.LEVEL", "linear").text.startswith("ERR the level is one of session")

    def test_versions(self, raw: Raw, key: str) -> None:
        assert raw.call("DURAMEN.GETV", key) is None
        first = raw.call("DURAMEN.SETV", key, "a", "-1")
        assert raw.call("DURAMEN.GETV", key) == [b"a", first]
        assert raw.call("DURAMEN.SETV", key, "b", "-1") is None
        second = raw.call("DURAMEN.SETV", key, "b", first, "EX", "100")
        assert second > first
        assert raw.call("TTL", key) == 100
        assert raw.call("DURAMEN.SETV", key, "c", first) is None
        assert raw.call("GET", key) == b"b"
        assert raw.call("DURAMEN.SETV", key, "c", second, "NX") == RawError("ERR syntax error")
        assert raw.call("DURAMEN.SETV", key, "c", "-2").text.startswith("ERR a version is an offset")


@pytest.mark.parametrize(
    "words",
    [("SELECT", "1"), ("SCAN", "0"), ("DURAMEN.LEVEL", "strong"), ("DURAMEN.SETV", "k", "v", "-1"), ("SUBSCRIBE", "x")],
    ids=" ".join,
)
def test_what_no_transaction_takes(raw: Raw, key: str, words: tuple[str, ...]) -> None:
    assert raw.call("MULTI") == OK
    assert raw.call("SET", key, "1") == Status("QUEUED")
    refused = raw.call(*words)
    assert refused == RawError(f"ERR {words[0].lower()} cannot be used in a transaction here")
    assert raw.call("EXEC") == RawError("EXECABORT Transaction discarded because of previous errors.")
    assert raw.call("GET", key) is None


def test_a_transaction_of_talk_alone(raw: Raw) -> None:
    raw.call("MULTI")
    for words in (("PING",), ("ECHO", "a"), ("CLIENT", "SETNAME", "b"), ("CLIENT", "GETNAME")):
        assert raw.call(*words) == Status("QUEUED")
    assert raw.call("EXEC") == [Status("PONG"), b"a", OK, b"b"]


class TestNotifications:
    def test_what_happens_to_keys(self, door: DoorThread, raw: Raw, key: str) -> None:
        with door.connect() as listener:
            space, event = f"__keyspace@0__:{key}", "__keyevent@0__:del"
            assert listener.call("SUBSCRIBE", space) == [b"subscribe", space.encode(), 1]
            assert listener.call("PSUBSCRIBE", "__keyevent@0__:d*") == [b"psubscribe", b"__keyevent@0__:d*", 2]
            refused = listener.call("GET", key)
            assert refused.text.startswith("ERR Can't execute 'get': only (P|S)SUBSCRIBE")
            assert listener.call("PING") == [b"pong", b""]
            door.run(lambda: _watched(door))
            raw.call("SET", key, "1", "EX", "100")
            raw.call("INCR", key)
            raw.call("SET", f"{key}-other", "1")
            raw.call("SET", key, "1", "NX")  # changes nothing, so nothing is told
            raw.call("DEL", key)
            expected = [b"set", b"expire", b"set", b"expire", b"del"]
            for name in expected:
                assert listener.reply() == [b"message", space.encode(), name]
            assert listener.reply() == [b"pmessage", b"__keyevent@0__:d*", event.encode(), key.encode()]
            assert listener.call("UNSUBSCRIBE") == [b"unsubscribe", space.encode(), 1]
            assert listener.call("PUNSUBSCRIBE") == [b"punsubscribe", b"__keyevent@0__:d*", 0]
            assert listener.call("UNSUBSCRIBE") == [b"unsubscribe", None, 0]
            assert listener.call("GET", key) is None

    def test_other_channels_are_refused(self, raw: Raw) -> None:
        assert raw.call("SUBSCRIBE", "news").text.startswith("ERR only keyspace notifications are here")
        assert raw.call("PUBLISH", "news", "x").text.startswith("ERR unknown command 'PUBLISH'")

    def test_pushes_of_resp3_come_between_replies(self, door: DoorThread, raw: Raw, key: str) -> None:
        with door.connect() as listener:
            listener.call("HELLO", "3")
            channel = f"__keyspace@0__:{key}"
            assert listener.call("SUBSCRIBE", channel) == [b"subscribe", channel.encode(), 1]
            door.run(lambda: _watched(door))
            raw.call("SET", key, "1")
            assert listener.reply() == [b"message", channel.encode(), b"set"]
            assert listener.call("GET", key) == b"1", "by RESP3 a listener may ask, too"


async def _watched(door: DoorThread) -> None:
    """Return when the watch of the default table stands at the log's end, so that nothing is missed."""
    import asyncio

    async with asyncio.timeout(20):
        while not door.door.notifications.watching(0):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


class TestConnections:
    def test_hello(self, door: DoorThread) -> None:
        with door.connect() as raw:
            two = raw.call("HELLO")
            assert dict(zip(two[::2], two[1::2], strict=True))[b"proto"] == 2
            three = raw.call("HELLO", "3", "SETNAME", "me")
            assert three[b"proto"] == 3
            assert three[b"server"] == b"duramen"
            assert raw.call("CLIENT", "GETNAME") == b"me"
            assert raw.call("GET", "absent") is None
            assert raw.call("RESET") == Status("RESET")
            assert raw.call("CLIENT", "GETNAME") is None

    def test_client_list(self, door: DoorThread, raw: Raw) -> None:
        number = raw.call("CLIENT", "ID")
        raw.call("CLIENT", "SETNAME", "lister")
        raw.call("CLIENT", "SETINFO", "LIB-NAME", "raw")
        line = raw.call("CLIENT", "INFO").decode()
        assert f"id={number} " in line
        assert " name=lister " in line
        assert " lib-name=raw " in line
        assert line in raw.call("CLIENT", "LIST").decode()
        assert raw.call("CLIENT", "LIST", "ID", number).decode() == line
        assert raw.call("CLIENT", "LIST", "TYPE", "pubsub") == b""

    def test_quit_answers_what_was_before(self, door: DoorThread, key: str) -> None:
        from raw_client import packed

        with door.connect() as raw:
            raw.send(packed("SET", key, "1") + packed("INCR", key) + packed("QUIT") + packed("SET", key, "lost"))
            assert [raw.reply() for _ in range(3)] == [OK, 2, OK]
            assert raw.ended()
        with door.connect() as raw:
            assert raw.call("GET", key) == b"2"

    def test_half_closed(self, door: DoorThread, key: str) -> None:
        """`printf … | nc`: the client ends its half, and gets every answer."""
        import socket

        with door.connect() as raw:
            raw.send(b"set %b 5\r\nincr %b\r\nping\r\n" % (key.encode(), key.encode()))
            raw.socket.shutdown(socket.SHUT_WR)
            assert [raw.reply() for _ in range(3)] == [OK, 6, Status("PONG")]
            assert raw.ended()

    def test_info(self, raw: Raw, key: str) -> None:
        raw.call("SET", key, "1")
        text = raw.call("INFO").decode()
        for line in ("redis_version:7.0.0", "server_name:duramen", "role:master", "cluster_enabled:0", "db0:keys="):
            assert line in text
        assert raw.call("INFO", "clients").startswith(b"# Clients\r\nconnected_clients:")
        assert raw.call("INFO", "nothing") == b""

    def test_commands_about_commands(self, raw: Raw) -> None:
        count = raw.call("COMMAND", "COUNT")
        assert count == len(raw.call("COMMAND")) == len(raw.call("COMMAND", "LIST"))
        (get, missing) = raw.call("COMMAND", "INFO", "get", "lpush")
        assert get[:2] == [b"get", 2]
        assert get[3:6] == [1, 1, 1]
        assert missing is None
        docs = raw.call("COMMAND", "DOCS", "set")
        assert docs[0] == b"set"
        assert raw.call("COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2") == [b"a", b"b"]

    def test_every_command_has_words_for_people(self, raw: Raw) -> None:
        docs = raw.call("COMMAND", "DOCS")
        assert all(dict(zip(each[::2], each[1::2], strict=True))[b"summary"] for each in docs[1::2])

    def test_a_cluster_of_one(self, door: DoorThread, raw: Raw) -> None:
        host, port = door.address
        ((first, last, node),) = raw.call("CLUSTER", "SLOTS")
        assert (first, last) == (0, 16383)
        assert node[:2] == [host.encode(), port]
        assert raw.call("CLUSTER", "MYID") == node[2]
        assert raw.call("CLUSTER", "KEYSLOT", "{user1}x") == raw.call("CLUSTER", "KEYSLOT", "user1")
        assert raw.call("CLUSTER", "KEYSLOT", "foo") == 12182  # as the documentation of Redis Cluster has it
        assert b"cluster_state:ok" in raw.call("CLUSTER", "INFO")
        assert b"myself,master" in raw.call("CLUSTER", "NODES")
        assert len(raw.call("CLUSTER", "SHARDS")) == 1
        for words in (("READONLY",), ("READWRITE",), ("ASKING",)):
            assert raw.call(*words) == OK
        assert raw.call("WAIT", "0", "100") == 0


class TestSecrets:
    def test_a_password(self, tmp_path: Path) -> None:
        running = DoorThread(tmp_path, DoorSettings(port=0, password="secret")).start()
        try:
            with running.connect() as raw:
                assert raw.call("GET", "a") == RawError("NOAUTH Authentication required.")
                assert raw.call("HELLO", "3").text.startswith("NOAUTH HELLO must be called")
                wrong = RawError("WRONGPASS invalid username-password pair or user is disabled.")
                assert raw.call("AUTH", "wrong") == wrong
                assert raw.call("AUTH", "somebody", "secret") == wrong
                assert raw.call("GET", "a") == RawError("NOAUTH Authentication required.")
                assert raw.call("AUTH", "secret") == OK
                assert raw.call("SET", "a", "1") == OK
            with running.connect() as raw:
                assert raw.call("HELLO", "3", "AUTH", "default", "secret")[b"proto"] == 3
                assert raw.call("GET", "a") == b"1"
                raw.call("RESET")
                assert raw.call("GET", "a") == RawError("NOAUTH Authentication required.")
        finally:
            running.close()

    def test_a_unix_socket(self, tmp_path: Path) -> None:
        path = tmp_path / "s"
        running = DoorThread(tmp_path / "data", DoorSettings(socket_path=path)).start()
        try:
            with Raw(str(path)) as raw:
                assert raw.call("SET", "a", "1") == OK
                assert f"addr={path}:0 " in raw.call("CLIENT", "INFO").decode()
        finally:
            running.close()
        assert not path.exists()

    def test_tls(self, tmp_path: Path) -> None:
        certificate, secret = tmp_path / "cert.pem", tmp_path / "key.pem"
        make = shutil.which("openssl")
        if make is None:
            pytest.skip("openssl is not installed, and makes the certificate of this test")
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        command = [make, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
        subprocess.run([*command, "-keyout", str(secret), "-out", str(certificate)], check=True, capture_output=True)
        door = DoorSettings(port=0, tls_certificate=certificate, tls_key=secret)
        running = DoorThread(tmp_path / "data", door).start()
        try:
            with redis.Redis(
                port=running.door.port, ssl=True, ssl_ca_certs=str(certificate), host="127.0.0.1"
            ) as client:
                assert client.set("a", "1")
                assert client.get("a") == b"1"
            with running.connect() as plain:
                plain.send(b"PING\r\n")
                with pytest.raises((ConnectionError, IndexError)):
                    plain.reply()
        finally:
            running.close()

    def test_tls_that_cannot_be(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRequest, match="needs both a certificate and its key"):
            DoorSockets.take(DoorSettings(port=0, tls_certificate=tmp_path / "cert.pem"))
        with pytest.raises(InvalidRequest, match="cannot be used for TLS"):
            DoorSockets.take(DoorSettings(port=0, tls_certificate=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem"))


class TestSockets:
    def test_a_port_is_taken_once(self) -> None:
        taken = DoorSockets.take(DoorSettings(port=0))
        with pytest.raises(PortInUse, match="--resp-port"):
            DoorSockets.take(DoorSettings(port=taken.port))
        taken.close()
        DoorSockets.take(DoorSettings(port=taken.port)).close()

    def test_a_unix_socket_of_a_killed_server_is_taken_over(self, tmp_path: Path) -> None:
        path = tmp_path / "s"
        taken = DoorSockets.take(DoorSettings(socket_path=path))
        with pytest.raises(PortInUse, match="another server may have it"):
            DoorSockets.take(DoorSettings(socket_path=path))
        assert taken.unix is not None
        taken.unix.close()  # as the kernel does for a process that is killed: the file stays
        again = DoorSockets.take(DoorSettings(socket_path=path))
        again.close()
        path.write_text("no socket")
        with pytest.raises(PortInUse):
            DoorSockets.take(DoorSettings(socket_path=path))
        assert path.read_text() == "no socket"
