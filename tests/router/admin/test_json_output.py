"""What `--json` prints has the names, the order and the types that it always had, whatever carries it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from kit.cluster.operated import DEADLINE_S, Operated

from log_tier.model.errors import UnknownFormat
from log_tier.model.identifiers import Partition
from router.admin import verbs
from router.admin.answers.argument_messages import argument_messages, arguments_of
from router.admin.answers.document import document_of
from router.admin.client import AdminConnection
from router.proto import admin_pb2 as pb

GOLDEN: Mapping[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "golden" / "answers.json").read_text(encoding="utf-8")
)
"""Recorded from a cluster when answers were still made as dicts. Fields that came later are added at the end."""

MESSAGES: Mapping[str, type[Message]] = {
    "nodes": pb.AdminNode,
    "partitions": pb.AdminPartition,
    "lag": pb.AdminLag,
    "snapshots": pb.AdminSnapshot,
    "versions": pb.AdminVersion,
    "explain": pb.AdminExplanation,
    "verify": pb.AdminComparison,
    "start": pb.AdminPlan,
    "jobs": pb.AdminJobSummary,
    "job": pb.AdminJob,
}


def message_of(document: Mapping[str, Any], kind: type[Message]) -> Message:
    """The message of which a document is the JSON form."""
    fields = {field.name: field for field in kind.DESCRIPTOR.fields}
    given: dict[str, Any] = {}
    for name, value in document.items():
        field = fields["source" if name == "from" else name]
        if name == "arguments":
            given[field.name] = argument_messages(value)
        elif field.message_type is not None:
            given[field.name] = [message_of(each, getattr(pb, field.message_type.name)) for each in value]
        elif value is not None:
            given[field.name] = value
    return kind(**given)


def shape(value: Any) -> Any:
    """Names in their order, and types; of a list what its elements are like."""
    if isinstance(value, dict):
        return [(name, shape(each)) for name, each in value.items() if name != "arguments"]
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def alike(one: Any, other: Any) -> bool:
    """Equal shapes, where an empty list or a null leaves open what is in it."""
    if isinstance(one, list) and isinstance(other, list) and (not one or not other):
        return True
    if "NoneType" in (one, other):
        return True
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


@pytest.mark.parametrize("kind", MESSAGES)
def test_recorded_answers_are_printed_as_they_were(kind: str) -> None:
    assert GOLDEN[kind]
    for document in GOLDEN[kind]:
        message = message_of(document, MESSAGES[kind])
        wire = type(message).FromString(message.SerializeToString())
        assert json.dumps(document_of(wire), ensure_ascii=False) == json.dumps(document, ensure_ascii=False)


async def test_a_cluster_answers_in_the_recorded_shapes(cluster: Operated) -> None:
    flights = await cluster.database.create_table("flights", partitions=2, replicas=2)
    await flights.put_many({b"k%d" % number: b"v" for number in range(20)})
    await cluster.until_level("flights")
    admin = cluster.admin
    await cluster.done(verbs.TakeSnapshots("flights"))
    job = await cluster.done(verbs.Stage("flights", "empty:"))
    answers: dict[str, list[Message]] = {
        "nodes": list(await admin.nodes()),
        "partitions": list(await admin.partitions()),
        "lag": list(await admin.lag()),
        "snapshots": list(await admin.snapshots()),
        "versions": list(await admin.versions()),
        "explain": [await admin.explain("flights", b"k1")],
        "verify": [each async for each in admin.verify("flights", Partition(0))],
        "start": [await admin.start(verbs.SetReplicas("flights", 3), dry_run=True)],
        "jobs": list(await admin.jobs()),
        "job": [await admin.job(job.job)],
    }
    assert answers.keys() == GOLDEN.keys()
    for kind, messages in answers.items():
        assert messages, kind
        for message in messages:
            mine = shape(document_of(message))
            assert all(alike(mine, shape(document)) for document in GOLDEN[kind]), (kind, mine)


def test_numbers_stay_numbers_and_the_order_of_arguments_is_kept() -> None:
    arguments: dict[str, int | str] = {"version": 2**53 + 1, "table": "t", "keep": 0, "url": ""}
    job = pb.AdminJob(job=2**62, arguments=argument_messages(arguments))
    printed = document_of(job)
    assert (printed["job"], list(printed["arguments"].items())) == (2**62, list(arguments.items()))
    assert arguments_of(job.arguments) == arguments


async def test_the_answers_of_an_older_server_are_refused_by_name() -> None:
    """They were JSON text in field 1; read as the messages of today they would be empty lists."""
    old = b"\x0a\x02{}"

    async def answer(request: bytes, context: object) -> bytes:
        return old

    server = grpc.aio.server()
    handlers = {"Nodes": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("duramen.v1.Admin", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with AdminConnection(f"127.0.0.1:{port}", timeout=DEADLINE_S) as admin:
            with pytest.raises(UnknownFormat, match=f"127.0.0.1:{port} gives the answers of an older version"):
                await admin.nodes()
    finally:
        await server.stop(None)
