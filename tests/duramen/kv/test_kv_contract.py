"""What `duramen.v1.KV` promises, the same at every role."""

from __future__ import annotations

import asyncio

import grpc
from kit.clients.kv_servers import DEADLINE_S, KVClient, number, refused, taken
from kit.deadlines import until_true, within

from log_tier.model.tokens import Token
from router.proto import kv_pb2 as kv

KEYS = [b"key%d" % n for n in range(24)]  # of all six partitions


class TestPutAndGet:
    async def test_every_server_takes_every_key(self, clients: list[KVClient]) -> None:
        for writer in clients:
            for key in KEYS:
                done = await writer.put(key, key + b"!")
                for reader in clients:
                    found = await reader.get(key, after=done.token)
                    assert (found.value, found.version) == (key + b"!", done.version)

    async def test_an_absent_key(self, client: KVClient) -> None:
        found = await client.get(b"nobody")
        assert not found.HasField("value")
        assert found.version == -1

    async def test_an_empty_value_is_one(self, client: KVClient) -> None:
        await client.put(b"empty", b"")
        found = await client.get(b"empty", level=kv.KV_LEVEL_STRONG)
        assert found.HasField("value")
        assert found.value == b""

    async def test_a_version_fits_the_next_condition(self, client: KVClient) -> None:
        version = (await client.get(b"k")).version
        for number_ in range(4):
            version = (await client.put(b"k", b"%d" % number_, if_version=version)).version
        deleted = await client.delete(b"k", if_version=version)
        assert deleted.version == -1
        again = await client.put(b"k", b"again", if_version=deleted.version)
        updated = await client.update(b"k", append=b"!", if_version=again.version)
        assert (await client.get(b"k", after=updated.token)).version == updated.version

    async def test_all_levels(self, client: KVClient) -> None:
        done = await client.put(b"k", b"v")
        for level in (kv.KV_LEVEL_UNSPECIFIED, kv.KV_LEVEL_SESSION, kv.KV_LEVEL_EVENTUAL):
            assert (await client.get(b"k", after=done.token, level=level)).value == b"v"
        assert (await client.get(b"k", level=kv.KV_LEVEL_STRONG)).value == b"v"
        assert (await client.get(b"k", after=done.token, level=kv.KV_LEVEL_BOUNDED, max_lag_ms=60_000)).value == b"v"

    async def test_tokens_gather_what_a_session_saw(self, client: KVClient) -> None:
        token = ""
        for key in KEYS:
            token = (await client.put(key, b"v", after=token)).token
        assert len(next(iter(Token.parse(token).tables.values()))) == 6
        token = (await client.get(KEYS[0], after=token)).token
        assert len(next(iter(Token.parse(token).tables.values()))) == 6

    async def test_expiry(self, client: KVClient) -> None:
        done = await client.put(b"k", b"v", ttl_ms=3_600_000)
        expires = (await client.get(b"k", after=done.token)).expires_at_ms
        assert expires > 0
        kept = await client.put(b"k", b"w", keep_ttl=True)
        assert (await client.get(b"k", after=kept.token)).expires_at_ms == expires
        await client.put(b"k", b"x")
        assert (await client.get(b"k", level=kv.KV_LEVEL_STRONG)).expires_at_ms == 0

    async def test_what_has_expired_is_absent(self, client: KVClient) -> None:
        await client.put(b"lasting", b"v", ttl_ms=3_600_000)
        await client.put(b"brief", b"v", ttl_ms=1)

        async def absent() -> bool:
            return (await client.get(b"brief", level=kv.KV_LEVEL_STRONG)).version == -1

        await until_true(absent)
        found = await client.get(b"brief", level=kv.KV_LEVEL_STRONG)
        assert (found.HasField("value"), found.expires_at_ms) == (False, 0)
        assert (await client.put(b"brief", b"w", if_absent=True)).version >= 0, "a condition sees what a read sees"
        assert (await client.get(b"lasting", level=kv.KV_LEVEL_STRONG)).value == b"v"


class TestGetMany:
    async def test_all_partitions_in_order(self, client: KVClient) -> None:
        token = ""
        for key in KEYS[::2]:
            token = (await client.put(key, key + b"!", after=token)).token
        reply = await client.get_many([*KEYS, KEYS[0]], after=token)
        assert [entry.key for entry in reply.entries] == [*KEYS, KEYS[0]]
        for place, entry in enumerate(reply.entries[:-1]):
            assert entry.HasField("value") == (place % 2 == 0)
            assert (entry.version >= 0) == (place % 2 == 0)
        assert reply.entries[-1].value == KEYS[0] + b"!"
        assert Token.parse(reply.token).tables.keys() == Token.parse(token).tables.keys()

    async def test_of_nothing(self, client: KVClient) -> None:
        assert not (await client.get_many([])).entries


class TestConditions:
    async def test_refused_with_what_was_there(self, client: KVClient) -> None:
        done = await client.put(b"k", b"v")
        for call in (
            client.put(b"k", b"w", if_absent=True),
            client.put(b"k", b"w", if_version=done.version + 7),
            client.delete(b"k", if_version=-1),
            client.update(b"k", append=b"w", if_absent=True),
        ):
            refusal = await refused(call)
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "condition_failed")
            assert refusal.fields["actual"] == str(done.version)
            assert refusal.retry_s is None
        refusal = await refused(client.put(b"other", b"w", if_present=True))
        assert refusal.fields["actual"] == "-1"
        assert (await client.get(b"k", level=kv.KV_LEVEL_STRONG)).value == b"v"

    async def test_two_callers_one_wins(self, clients: list[KVClient]) -> None:
        version = (await clients[0].put(b"k", b"0")).version
        for _ in range(20):
            calls = [client.put(b"k", b"%d" % caller, if_version=version) for caller, client in enumerate(clients * 2)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            won = [each for each in results if isinstance(each, kv.KVPutResponse)]
            lost = [each for each in results if isinstance(each, grpc.aio.AioRpcError)]
            assert len(won) == 1
            assert {each.code() for each in lost} <= {grpc.StatusCode.FAILED_PRECONDITION}
            assert len(lost) == len(calls) - 1
            version = won[0].version

    async def test_many_increments_are_each_counted(self, clients: list[KVClient]) -> None:
        replies = await asyncio.gather(*(client.update(b"n", add=number(1)) for client in clients for _ in range(40)))
        expected = 40 * len(clients)
        assert sorted(int(reply.value) for reply in replies) == list(range(1, expected + 1))
        assert (await clients[0].get(b"n", level=kv.KV_LEVEL_STRONG)).value == b"%d" % expected


class TestUpdates:
    async def test_numbers(self, client: KVClient) -> None:
        assert (await client.update(b"n", add=number(5))).value == b"5"
        assert (await client.update(b"n", multiply=number(3))).value == b"15"
        assert (await client.update(b"n", max=number(20))).value == b"20"
        assert (await client.update(b"n", min=number(-4))).value == b"-4"
        assert (await client.update(b"n", add=number(0.5))).value == b"-3.5"

    async def test_append(self, client: KVClient) -> None:
        assert (await client.update(b"t", append=b"ab")).value == b"2"
        done = await client.update(b"t", append=b"c")
        assert done.value == b"3"
        assert (await client.get(b"t", after=done.token)).value == b"abc"

    async def test_an_update_sets_an_expiry_and_keeps_it(self, client: KVClient) -> None:
        await client.update(b"n", add=number(1), ttl_ms=3_600_000)
        done = await client.update(b"n", add=number(1))
        assert (await client.get(b"n", after=done.token)).expires_at_ms > 0

    async def test_what_cannot_be_counted(self, client: KVClient) -> None:
        await client.put(b"text", b"abc")
        refusal = await refused(client.update(b"text", add=number(1)))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "not_a_number")
        await client.put(b"big", b"%d" % ((1 << 63) - 1))
        refusal = await refused(client.update(b"big", add=number(1)))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "number_overflow")


class TestGroups:
    async def test_all_or_none(self, client: KVClient) -> None:
        done = await client.write(
            kv.KVWrite(key=b"{u}name", put=b"Ada"),
            kv.KVWrite(key=b"{u}visits", add=number(2)),
            kv.KVWrite(key=b"{u}visits", add=number(3)),
            kv.KVWrite(key=b"{u}old", delete=True),
        )
        assert [result.value for result in done.results] == [b"", b"2", b"5", b""]
        assert done.results[3].version == -1
        found = await client.get_many([b"{u}name", b"{u}visits", b"{u}old"], after=done.token)
        assert [entry.version for entry in found.entries] == [done.results[0].version, done.results[2].version, -1]
        refusal = await refused(
            client.write(
                kv.KVWrite(key=b"{u}name", put=b"Grace"),
                kv.KVWrite(key=b"{u}visits", add=number(1), if_version=done.results[1].version),
            )
        )
        assert refusal.reason == "condition_failed"
        again = await client.get_many([b"{u}name", b"{u}visits"], level=kv.KV_LEVEL_STRONG)
        assert [entry.value for entry in again.entries] == [b"Ada", b"5"]

    async def test_of_several_partitions(self, client: KVClient) -> None:
        refusal = await refused(client.write(*(kv.KVWrite(key=key, put=b"v") for key in KEYS)))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "partition_mismatch")
        assert (await client.get(KEYS[0], level=kv.KV_LEVEL_STRONG)).version == -1


class TestScans:
    async def test_in_key_order_and_on_from_anywhere(self, clients: list[KVClient]) -> None:
        client = clients[0]
        expected = sorted(b"row%03d" % n for n in range(500))
        token = ""
        for done in await asyncio.gather(*(client.put(key, b"v" + key) for key in expected)):
            token = str(Token.parse(token).merge(Token.parse(done.token))) if token else done.token
        messages = await client.scan(after=token)
        entries = [entry for message in messages for entry in message.entries]
        assert [(entry.key, entry.value) for entry in entries] == [(key, b"v" + key) for key in expected]
        assert all(entry.version >= 0 for entry in entries)
        for at in (0, 1, 250, 498):
            rest = await clients[-1].scan(start=expected[at] + b"\0", after=messages[0].token)
            assert [entry.key for message in rest for entry in message.entries] == expected[at + 1 :]
            back = await clients[-1].scan(end=expected[at], reverse=True, limit=7, after=messages[0].token)
            assert [entry.key for message in back for entry in message.entries] == expected[:at][::-1][:7]

    async def test_a_prefix_and_a_range(self, client: KVClient) -> None:
        for key in (b"a", b"ab1", b"ab2", b"b"):
            await client.put(key, b"v")
        strong = kv.KV_LEVEL_STRONG
        prefixed = await client.scan(prefix=b"ab", level=strong)
        assert [entry.key for message in prefixed for entry in message.entries] == [b"ab1", b"ab2"]
        ranged = await client.scan(start=b"ab1", end=b"b", level=strong)
        assert [entry.key for message in ranged for entry in message.entries] == [b"ab1", b"ab2"]

    async def test_of_nothing_gives_a_token(self, client: KVClient) -> None:
        (message,) = await client.scan(prefix=b"nobody")
        assert not message.entries
        assert message.token

    async def test_messages_stay_below_a_clients_limit(self, client: KVClient) -> None:
        value = b"x" * (1024 * 1024)
        for key in KEYS[:8]:
            await client.put(key, value)
        messages = await client.scan(level=kv.KV_LEVEL_STRONG)
        assert sum(len(message.entries) for message in messages) == 8
        assert max(message.ByteSize() for message in messages) < 4 * 1024 * 1024


class TestWatches:
    async def test_from_now_on(self, clients: list[KVClient]) -> None:
        await clients[0].put(b"before", b"0")
        watch = clients[0].watch()
        first = await watch.read()
        assert not first.changes
        written = [await clients[-1].put(key, b"v") for key in KEYS]
        changes, _ = await taken(watch, len(KEYS))
        assert sorted((change.key, change.version) for change in changes) == sorted(
            (key, done.version) for key, done in zip(KEYS, written, strict=True)
        )
        watch.cancel()

    async def test_goes_on_after_any_token(self, clients: list[KVClient]) -> None:
        start = await clients[0].end_token()
        for turn in range(3):
            for key in KEYS[:6]:
                await clients[0].put(key, b"%d" % turn)
        watch = clients[0].watch(after=start)
        seen: list[tuple[bytes, bytes]] = []
        token = start
        while len(seen) < 18:
            async with within(DEADLINE_S):
                message = await watch.read()
            if not message.changes:
                continue
            seen += [(change.key, change.value) for change in message.changes]
            token = message.token
            watch.cancel()
            watch = clients[len(seen) % len(clients)].watch(after=token)  # another server, each time
        watch.cancel()
        assert sorted(seen) == sorted((key, b"%d" % turn) for key in KEYS[:6] for turn in range(3))

    async def test_from_the_beginning_with_every_operation(self, client: KVClient) -> None:
        await client.put(b"{k}", b"1")
        await client.update(b"{k}", add=number(2))
        await refused(client.put(b"{k}", b"never", if_absent=True))
        await client.update(b"{k}", append=b"x")
        await client.delete(b"{k}")
        watch = client.watch(start=kv.KV_WATCH_START_EARLIEST)
        changes, _ = await taken(watch, 4)
        watch.cancel()
        assert [(change.operation, change.value, change.HasField("value")) for change in changes] == [
            (kv.KV_OPERATION_PUT, b"1", True),
            (kv.KV_OPERATION_ADD, b"2", True),
            (kv.KV_OPERATION_APPEND, b"x", True),
            (kv.KV_OPERATION_DELETE, b"", False),
        ]
        assert all(change.timestamp_ms > 0 for change in changes)
        assert [change.version for change in changes] == sorted(change.version for change in changes)

    async def test_the_end_token_is_before_what_comes(self, client: KVClient) -> None:
        await client.put(b"k", b"old")
        watch = client.watch(after=await client.end_token())
        await client.put(b"k", b"new")
        changes, _ = await taken(watch, 1)
        watch.cancel()
        assert [change.value for change in changes] == [b"new"]


class TestTables:
    async def test_no_such_table(self, client: KVClient) -> None:
        client.table = "nowhere"
        for call in (
            client.put(b"k", b"v"),
            client.get(b"k"),
            client.end_token(),
            client.scan(),
            client.watch().read(),
        ):
            refusal = await refused(call)
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "table_not_found")

    async def test_made_again(self, client: KVClient) -> None:
        from router.proto import tables_pb2

        old = await client.put(b"k", b"old")
        await client.tables.Drop(tables_pb2.FindTableRequest(name=client.table), timeout=DEADLINE_S)
        await client.create(partitions=2)
        assert (await client.get(b"k", level=kv.KV_LEVEL_STRONG)).version == -1
        done = await client.put(b"k", b"new")
        assert (await client.get(b"k", after=done.token)).value == b"new"
        refusal = await refused(client.get(b"k", after=old.token))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid_token")
