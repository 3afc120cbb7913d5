"""What the service refuses, and how it says so: codes, reasons, details, and calls that end early."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from kit.clients.kv_servers import DEADLINE_S, KVClient, Refusal, number, refusal_of, refused, served
from kit.deadlines import patience_s

from log_tier.model.errors import ERRORS, ConditionFailed, DuramenError, Overloaded
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.tokens import Token
from log_tier.rpc.status_codes import status_details
from router.proto import kv_pb2 as kv

KEY_TOO_LONG = b"k" * 512
VALUE_TOO_LONG = b"v" * (4 * 1024 * 1024 + 1)


@pytest.mark.embedded_log_only
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"key": b""}, "invalid_key"),
        ({"key": KEY_TOO_LONG}, "invalid_key"),
        ({"key": b"k", "value": VALUE_TOO_LONG}, "invalid_value"),
        ({"key": b"k", "if_absent": True, "if_present": True}, "invalid_request"),
        ({"key": b"k", "if_version": 3, "if_present": True}, "invalid_request"),
        ({"key": b"k", "if_version": -2}, "invalid_request"),
        ({"key": b"k", "ttl_ms": -1}, "invalid_request"),
        ({"key": b"k", "ttl_ms": 1 << 62}, "invalid_request"),
        ({"key": b"k", "ttl_ms": 1, "keep_ttl": True}, "invalid_request"),
        ({"key": b"k", "after": "no token"}, "invalid_token"),
    ],
)
async def test_puts_that_cannot_be_meant(single: KVClient, how: dict[str, Any], reason: str) -> None:
    good = asyncio.ensure_future(single.put(b"other", b"v"))  # it may share the refused one's round, and is not harmed
    refusal = await refused(single.put(how.pop("key"), how.pop("value", b"v"), **how))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert refusal.retry_s is None
    assert (await single.get(b"other", after=(await good).token)).value == b"v"


@pytest.mark.embedded_log_only
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"key": b""}, "invalid_key"),
        ({"key": b"k", "level": 77}, "invalid_request"),
        ({"key": b"k", "level": kv.KV_LEVEL_BOUNDED}, "invalid_request"),
        ({"key": b"k", "level": kv.KV_LEVEL_BOUNDED, "max_lag_ms": 86_400_001}, "invalid_request"),
        ({"key": b"k", "max_lag_ms": 5}, "invalid_request"),
        ({"key": b"k", "after": "d1.AAAA"}, "invalid_token"),
        ({"key": b"k", "after": "d1.é"}, "invalid_token"),
    ],
)
async def test_gets_that_cannot_be_meant(single: KVClient, how: dict[str, Any], reason: str) -> None:
    refusal = await refused(single.get(how.pop("key"), **how))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)


@pytest.mark.embedded_log_only
async def test_updates_and_groups_that_cannot_be_meant(single: KVClient) -> None:
    calls = [
        single.update(b"k"),
        single.update(b"k", add=kv.KVNumber()),
        single.update(b"k", add=number(float("nan"))),
        single.update(b"k", add=number(float("inf"))),
        single.write(),
        single.write(kv.KVWrite(key=b"k")),
        single.write(kv.KVWrite(key=b"k", delete=False)),
        single.write(kv.KVWrite(key=b"k", delete=True, ttl_ms=5)),
        single.write(kv.KVWrite(key=b"k", add=number(1), keep_ttl=True)),
        single.write(kv.KVWrite(put=b"v")),
    ]
    for call in calls:
        assert (await refused(call)).code == grpc.StatusCode.INVALID_ARGUMENT
    assert (await single.get(b"k", level=kv.KV_LEVEL_STRONG)).version == -1


@pytest.mark.embedded_log_only
async def test_streams_that_cannot_be_meant(single: KVClient) -> None:
    token = await single.end_token()
    for call in (
        single.scan(prefix=b"a", start=b"b"),
        single.scan(limit=-1),
        single.scan(start=b"x" * 513),
        single.watch(after=token, start=kv.KV_WATCH_START_EARLIEST).read(),
        single.watch(start=9).read(),
        single.watch(after="nonsense").read(),
    ):
        assert (await refused(call)).code == grpc.StatusCode.INVALID_ARGUMENT


async def test_over_a_limit(single: KVClient) -> None:
    for call in (
        single.get_many([b"k"] * 10_001),
        single.write(*[kv.KVWrite(key=b"k", put=b"v")] * 10_001),
        single.write(*[kv.KVWrite(key=b"k", put=b"v" * 3_000_000)] * 3),
    ):
        refusal = await refused(call)
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "limit_exceeded")
        assert int(refusal.fields["limit"]) < int(refusal.fields["size"])


async def test_a_token_of_more_than_the_log_holds(single: KVClient) -> None:
    done = await single.put(b"k", b"v")
    ((table, offsets),) = Token.parse(done.token).tables.items()
    ((partition, offset),) = offsets.items()
    ahead = str(Token.of(table, partition, Offset(offset + 100)))
    refusal = await refused(single.get(b"k", after=ahead))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.OUT_OF_RANGE, "token_ahead")
    assert refusal.fields["asked"] == str(offset + 100)
    other_table = str(Token.of(table, Partition(99), Offset(1)))
    assert (await refused(single.get(b"k", after=other_table))).reason == "invalid_token"
    assert (await refused(single.put(b"k", b"w", after=other_table))).reason == "invalid_token"


async def test_a_call_ends_by_its_deadline(tmp_path: Path) -> None:
    async with served("node", tmp_path) as ports:
        client = KVClient(ports[0])
        await client.create()
        began = asyncio.get_running_loop().time()
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await client.stub.Get(kv.KVGetRequest(table=client.table, key=b"k"), timeout=1e-6)
        assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert asyncio.get_running_loop().time() - began < patience_s(DEADLINE_S)
        assert (await client.get(b"k")).version == -1
        await client.channel.close(None)


async def test_a_cancelled_call_takes_nothing_from_the_others(single: KVClient) -> None:
    for _ in range(30):
        calls = [asyncio.ensure_future(single.put(b"k%d" % n, b"v")) for n in range(12)]
        calls[5].cancel()
        calls[0].cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(each, kv.KVPutResponse) for n, each in enumerate(done) if n not in (0, 5))
    watch = single.watch()
    await watch.read()
    watch.cancel()
    assert (await single.get(b"k1", level=kv.KV_LEVEL_STRONG)).value == b"v"


async def test_a_server_that_stops_ends_its_watches_with_a_reason(tmp_path: Path) -> None:
    async with served("single", tmp_path) as ports:
        client = KVClient(ports[0])
        await client.create()
        watch = client.watch()
        await watch.read()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await watch.read()
    refusal = refusal_of(raised.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "shutting_down")
    assert refusal.retry_s == pytest.approx(0.05)
    await client.channel.close(None)


class TestDetails:
    """`google.rpc.Status` for every error that there is."""

    def refusal(self, error: DuramenError) -> Refusal:
        class Failure(grpc.RpcError):
            def trailing_metadata(self) -> Any:
                return (("grpc-status-details-bin", status_details(error, "message")),)

            def code(self) -> grpc.StatusCode:
                return next(code for code in grpc.StatusCode if code.value[0] == self.number)

            def details(self) -> str:
                return "message"

            number = 0

        from google.rpc.status_pb2 import Status

        failure: Any = Failure()
        failure.number = Status.FromString(status_details(error, "message")).code
        return refusal_of(failure)

    @pytest.mark.parametrize("reason", sorted(ERRORS))
    def test_every_reason(self, reason: str) -> None:
        error = ERRORS[reason]("message", partition=3, table="flights")
        refusal = self.refusal(error)
        assert refusal.code is not grpc.StatusCode.OK
        assert refusal.reason == reason
        assert refusal.fields == {"partition": "3", "table": "flights"}
        assert (refusal.retry_s is not None) == error.retryable

    def test_a_full_queue_is_left_alone_for_longer(self) -> None:
        assert self.refusal(Overloaded("full", limit=1)).retry_s == pytest.approx(0.2)

    def test_what_no_message_can_carry_is_shown(self) -> None:
        fields = self.refusal(ConditionFailed("x", key="\udcff" + "x" * 500)).fields
        assert fields["key"].startswith("\\udcff")
        assert len(fields["key"]) == 200
