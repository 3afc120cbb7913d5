"""Bytes that are no message, and messages that mean nothing, at every method that a server has."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator
from typing import Any, Final

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.deadlines import patience_s

import duramen
from duramen.client.transport.loop_thread import LoopThread
from duramen.server.roles.all_in_one import SingleServer as Server
from log_tier.proto import cluster_pb2, log_pb2
from log_tier.rpc import checked
from log_tier.rpc.checked import FIELDS_MAX
from log_tier.rpc.messages.message_fields import count_fields
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import admin_pb2, console_pb2, keyvalue_pb2, kv_pb2, resp_endpoint_pb2, tables_pb2
from serving_tier.proto import node_pb2

CODE: Final = grpc.StatusCode

# The codes of the caller's own faults and of passing failures; and of a call that was simply right.
EXPECTED: Final = {
    CODE.OK, CODE.INVALID_ARGUMENT, CODE.NOT_FOUND, CODE.ALREADY_EXISTS, CODE.OUT_OF_RANGE, CODE.FAILED_PRECONDITION,
    CODE.RESOURCE_EXHAUSTED, CODE.UNIMPLEMENTED, CODE.DEADLINE_EXCEEDED, CODE.UNAVAILABLE,
}  # fmt: skip

METHODS: Final = [
    (f"/{service.full_name}/{method.name}", method)
    for module in (
        cluster_pb2,
        log_pb2,
        admin_pb2,
        resp_endpoint_pb2,
        keyvalue_pb2,
        kv_pb2,
        console_pb2,
        tables_pb2,
        node_pb2,
    )
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]


@pytest.fixture
def channel(served_fast: Server) -> Iterator[grpc.Channel]:
    """To a server that has every service."""
    with grpc.insecure_channel(f"127.0.0.1:{served_fast.port}") as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_channel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc.Channel]:
    """To such a server of all tests whose messages are refused before anything is done."""
    loop = LoopThread()
    folder = tmp_path_factory.mktemp("refusing")
    server = loop.run(lambda: Server.open(folder / "data", port=0, resp_endpoint=RespSettings(port=0)))
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as opened:
        yield opened
    loop.run(server.close)
    loop.stop()


def code_of(channel: grpc.Channel, name: str, method: Any, raw: bytes, timeout: float = 10.0) -> grpc.StatusCode:
    """What the server says to these bytes. A stream that sends something has taken them."""
    try:
        if method.server_streaming:
            call: Any = channel.unary_stream(name, bytes, bytes)(raw, timeout=timeout)
            for _ in call:
                call.cancel()
                return CODE.OK
            return CODE.OK
        channel.unary_unary(name, bytes, bytes)(raw, timeout=timeout)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return CODE.OK


@pytest.mark.embedded_log_only  # they are refused before any log is asked
@pytest.mark.parametrize(("name", "method"), METHODS, ids=[name for name, _ in METHODS])
def test_bytes_that_do_not_parse(
    shared_channel: grpc.Channel, name: str, method: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        codes = {
            code_of(shared_channel, name, method, raw) for raw in (b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x07junk")
        }
    assert codes == {CODE.INVALID_ARGUMENT}
    assert "Traceback" not in caplog.text


@pytest.mark.embedded_log_only
@pytest.mark.parametrize("streams", [False, True], ids=["one answer", "a stream of answers"])
def test_of_malformed_messages_the_first_is_noted(
    channel: grpc.Channel, streams: bool, caplog: pytest.LogCaptureFixture
) -> None:
    name, method = next(each for each in METHODS if each[1].server_streaming is streams)
    with caplog.at_level(logging.WARNING):
        for raw in (b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x07junk"):
            code_of(channel, name, method, raw)
    (line,) = caplog.records
    assert line.message.startswith(f"refused 1 malformed message; the last one to {name} from ")


@pytest.mark.embedded_log_only
@pytest.mark.parametrize(("name", "method"), METHODS, ids=[name for name, _ in METHODS])
def test_a_message_of_too_many_fields(shared_channel: grpc.Channel, name: str, method: Any) -> None:
    """The parser would hold up everybody, for as long as the caller likes."""
    assert code_of(shared_channel, name, method, b"\xfa\x07\x00" * (FIELDS_MAX + 1)) is CODE.RESOURCE_EXHAUSTED


def test_no_large_message_is_parsed_on_the_event_loop(channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def counted(raw: bytes, descriptor: Any, most: int) -> int:
        threads.append(threading.current_thread().name)
        return count_fields(raw, descriptor, most)

    monkeypatch.setattr(checked, "count_fields", counted)
    get_many = channel.unary_unary("/duramen.v1.KV/GetMany", bytes, bytes)
    request = kv_pb2.KVGetManyRequest(table="absent", keys=[b"key:%05d" % number for number in range(9000)])
    with pytest.raises(grpc.RpcError, match="absent"):
        get_many(request.SerializeToString(), timeout=10.0)
    (thread,) = threads
    assert thread.startswith(("asyncio_", "uvloop_")), "one of the loop's workers"


@pytest.mark.parametrize(
    ("raw", "code"), [(b"\x1a\x00" * (FIELDS_MAX + 1), CODE.RESOURCE_EXHAUSTED), (b"\xff", CODE.INVALID_ARGUMENT)]
)
def test_a_stream_of_requests_is_checked(channel: grpc.Channel, raw: bytes, code: grpc.StatusCode) -> None:
    name = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    with pytest.raises(grpc.RpcError) as refused:
        list(channel.stream_stream(name, bytes, bytes)(iter([raw]), timeout=10.0))
    assert refused.value.code() is code


def test_random_bytes_at_every_method_for_other_languages(
    channel: grpc.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    """Some random bytes are a message by chance. What is none is refused, and counted in one line for all of them."""
    draw = random.Random(12)
    methods = [(name, method) for name, method in METHODS if name.startswith("/duramen.v1.KV/")]
    assert len(methods) == 11
    refused = 0
    with caplog.at_level(logging.WARNING):
        for name, method in methods:
            for _ in range(40):
                raw = draw.randbytes(draw.randrange(1, 80))
                expected = EXPECTED if is_message(method, raw) else {CODE.INVALID_ARGUMENT}
                assert code_of(channel, name, method, raw, timeout=patience_s(2.0)) in expected, f"{name} at {raw!r}"
                refused += expected is not EXPECTED
    assert refused > 200
    assert "Traceback" not in caplog.text
    first, *later = (each.message for each in caplog.records)
    assert first.startswith("refused 1 malformed message; the last one to /duramen.v1.KV/")
    assert len(later) <= 2, "a line for all of five seconds"


def is_message(method: Any, raw: bytes) -> bool:
    try:
        message_factory.GetMessageClass(method.input_type).FromString(raw)
    except DecodeError:
        return False
    return True


def nonsense(method: Any) -> st.SearchStrategy[bytes]:
    """Messages that parse: fields of the right types, with values that nobody checked."""
    return message_of(method.input_type).map(lambda message: message.SerializeToString())


def message_of(kind: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    made = message_factory.GetMessageClass(kind)
    fields = {
        field.name: values_of(field, depth)
        for field in kind.fields
        if not (depth > 2 and field.type == FieldDescriptor.TYPE_MESSAGE)
        and not (field.message_type is not None and field.message_type.GetOptions().map_entry)
    }
    return st.fixed_dictionaries({}, optional=fields).map(lambda given: made(**given))


def values_of(field: Any, depth: int) -> st.SearchStrategy[Any]:
    one = one_of(field, depth)
    return st.lists(one, max_size=3) if field.is_repeated else one


def one_of(field: Any, depth: int) -> st.SearchStrategy[Any]:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return message_of(field.message_type, depth + 1)
    if field.type == FieldDescriptor.TYPE_ENUM:
        return st.integers(-1, 9)
    kinds = {
        FieldDescriptor.CPPTYPE_INT32: st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]),
        FieldDescriptor.CPPTYPE_INT64: st.sampled_from([0, 1, -1, -2, 2**63 - 1, -(2**63)]),
        FieldDescriptor.CPPTYPE_UINT32: st.sampled_from([0, 1, 7, 1000, 2**31, 2**32 - 1]),
        FieldDescriptor.CPPTYPE_UINT64: st.sampled_from([0, 1, 2**63, 2**64 - 1]),
        FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
        FieldDescriptor.CPPTYPE_DOUBLE: st.sampled_from([0.0, -1.0, float("inf"), float("nan")]),
        FieldDescriptor.CPPTYPE_FLOAT: st.sampled_from([0.0, -1.0, float("inf"), float("nan")]),
    }
    if field.cpp_type in kinds:
        return kinds[field.cpp_type]
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.one_of(st.sampled_from([b"", b"k", TABLE_ID, bytes(16), bytes(600)]), st.binary(max_size=80))
    return st.sampled_from(["", "flights", "a/b", "n1", "\x00", "x" * 500, "0" * 22])


# As long as a table's id is: nonsense that has one gets further in.
TABLE_ID: Final = b"\x01" * 16

# They do what they are asked to, at length, or stop what the test needs.
LEFT_OUT: Final = ("Follow", "Status", "Watch")


OF_THE_LOG: Final = ("/duramen.v1.Log/", "/duramen.v1.KV/", "/duramen.v1.KeyValue/", "/duramen.v1.Tables/")
"""What such methods do is another thing with a log in Kafka."""

ENDING: Final = [
    pytest.param(name, method, id=name, marks=[] if name.startswith(OF_THE_LOG) else pytest.mark.embedded_log_only)
    for name, method in METHODS
    if not name.endswith(LEFT_OUT)
]


@pytest.mark.parametrize(("name", "method"), ENDING)
def test_messages_that_mean_nothing(channel: grpc.Channel, name: str, method: Any, served_fast: Server) -> None:
    with duramen.connect(f"127.0.0.1:{served_fast.port}", direct=False) as db:
        table = db.create_table("flights", partitions=2)
        table.put(b"k", b"v")

        @given(st.one_of(nonsense(method), st.binary(max_size=60)))
        @settings(
            max_examples=25, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
        )
        def answered(raw: bytes) -> None:
            code = code_of(channel, name, method, raw, timeout=patience_s(2.0))
            assert code in EXPECTED, f"{name} says {code.name}"

        answered()
        # Alive, and what it says makes sense: some of these methods drop tables.
        db.create_table("other").put(b"k", b"v")
