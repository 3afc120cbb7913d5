"""Proofs, grants, and what a request demands: nothing of them lets in what no grant covers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from duramen.server.roles.guarding import ALL_RULES
from fuzz.fields import changed_fields, grown_fields
from fuzz.sealing import sealed_batch
from fuzz.target import Target
from log_tier.access.authenticator import basic_header, read_basic
from log_tier.access.demands import BatchDemand
from log_tier.access.rules import Rule
from log_tier.access.tokens import read_token
from log_tier.model.batch import Columns, decode_batch, encode_batch
from log_tier.model.errors import DuramenError
from log_tier.model.record import OPERATION_MASK, Operation, attribute_of
from log_tier.proto import cluster_pb2, log_pb2
from log_tier.trust.grants import Grant
from log_tier.trust.rights import Rights
from router.proto import admin_pb2, keyvalue_pb2, kv_pb2, tables_pb2, users_pb2

__all__ = ["access_targets"]

_SECRET: Final = "dt1_0123456789ab_" + "5f" * 32 + "_alice"
_ALICE: Final = Rights([Grant.parse("write orders --key eu:"), Grant.parse("read orders --key eu:a")])
_NOBODY: Final = Rights()


def _token(data: bytes) -> None:
    read = read_token(data.decode("utf-8", "replace"))
    assert read is None or (read.user and len(read.id) == 12), "a token names its user"


def _basic(data: bytes) -> None:
    name, _ = read_basic(data.decode("utf-8", "replace"))
    assert ":" not in name, "the name ends at the first colon"


def _grant(data: bytes) -> None:
    """The text of a grant is read as the same grant again."""
    grant = Grant.parse(data.decode("utf-8", "replace"))
    assert Grant.parse(grant.text) == grant, f"{grant.text} is another grant"


def _batches() -> list[bytes]:
    keys = (b"eu:1", b"eu:a1", b"eu:a2")
    appending = (int(Operation.PUT), attribute_of(Operation.APPEND), int(Operation.DELETE))
    return [
        encode_batch(Columns(keys, (b"1",) * 3)),
        encode_batch(Columns(keys, (b"1",) * 3, appending)),
        encode_batch(Columns(keys, (b"1",) * 3, appending), compress=True),
        encode_batch(Columns((b"us:1",), (b"1",))),
        encode_batch(Columns((b"",), (b"",), (int(Operation.BARRIER),))),
    ]


def _demanded(data: bytes) -> None:
    """What passes writes only below eu:, and holds no barrier."""
    if BatchDemand("orders", data).lacks(_ALICE):
        return
    columns = decode_batch(data).columns
    assert all(key.startswith(b"eu:") for key in columns.keys), f"keys {columns.keys!r} passed"
    operations = {attribute & OPERATION_MASK for attribute in columns.attributes or ()}
    assert Operation.BARRIER not in operations, "a barrier passed"


def _rule(kind: type[Message], rule: Rule, data: bytes) -> None:
    """Whatever a request holds, somebody without a grant is not let in; a refusal is typed."""
    try:
        request: Any = kind.FromString(data)
    except DecodeError:
        return
    demand = rule(request, lambda table: f"table-{table}")
    assert demand.lacks(_NOBODY) or getattr(request, "parts", None) == [], f"{request} passed without a grant"


_SERVICES: Final = {
    service.full_name: service
    for module in (kv_pb2, keyvalue_pb2, tables_pb2, admin_pb2, users_pb2, log_pb2, cluster_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
}
_FOR_EVERY_USER: Final = frozenset(
    {
        "/duramen.v1.Tables/List",
        "/duramen.v1.Cluster/Follow",
        "/duramen.v1.Cluster/Status",
        "/duramen.v1.Cluster/SlowCalls",
        *(f"/duramen.v1.Users/{method}" for method in ("SetPassword", "AddToken", "RevokeToken")),
    }
)
"""Without a grant; what a user may do for itself the service decides."""


def _rule_targets() -> Iterator[Target]:
    for name, service in _SERVICES.items():
        for method in service.methods:
            path = f"/{name}/{method.name}"
            kind = GetMessageClass(method.input_type)
            if path in _FOR_EVERY_USER or not kind.DESCRIPTOR.fields:
                continue
            yield Target(
                f"rule of {path}",
                partial(_samples, kind),
                partial(_rule, kind, ALL_RULES[path]),
                change=partial(changed_fields, kind),
                grow=partial(grown_fields, kind),
            )


def _samples(kind: type[Message]) -> list[bytes]:
    """A request with nothing in it but the id of a table, where it has one, and the batch of an append."""
    request: Any = kind()
    for field in {"table_id", "topic_id"} & set(kind.DESCRIPTOR.fields_by_name.keys()):
        setattr(request, field, bytes(16))
    if kind is log_pb2.AppendRequest:
        request.batch = _batches()[0]
    return [request.SerializeToString()]


def access_targets() -> Iterator[Target]:
    """Texts, batches, and the rule of each method with all that its request can hold."""
    header = basic_header("alice", "correct horse battery").removeprefix("Basic ").encode()
    yield Target("token of a user", lambda: [_SECRET.encode()], _token)
    yield Target("name and password", lambda: [header], _basic, (DuramenError,))
    yield Target("grant", lambda: [b"read,write orders* --key eu:", b"read _duramen_audit", b"admin *"], _grant)
    yield Target("demand of a batch", _batches, _demanded)
    yield Target("demand of a batch, sealed", _batches, _demanded, seal=sealed_batch)
    yield from _rule_targets()
