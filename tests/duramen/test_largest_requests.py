"""The largest requests that the limits allow have fewer fields than a message may have, of every method.

A request is filled by its descriptor: a field that is added to a message counts here from then on. Every field is set,
also those that exclude each other, so the count is an upper bound.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor

from log_tier.model.identifiers import PARTITIONS_MAX
from log_tier.model.record import GROUP_RECORDS_MAX
from log_tier.proto import cluster_pb2, log_pb2
from log_tier.rows.definition import SCHEMAS_MAX
from log_tier.rows.key_fields import KEY_FIELDS_MAX
from log_tier.rows.table_index import INDEX_FIELDS_MAX, INDEXES_MAX
from log_tier.rpc.checked import FIELDS_MAX
from log_tier.rpc.messages.message_fields import count_fields
from router.admin.audits.audit_acknowledged import RUNS_MAX
from router.data.requests import PARTS_MAX, READ_KEYS_MAX
from router.endpoints.grpc.kv.reads import GET_MANY_KEYS_MAX
from router.proto import admin_pb2, console_pb2, keyvalue_pb2, kv_pb2, resp_endpoint_pb2, tables_pb2
from serving_tier.proto import node_pb2
from serving_tier.service.content_digest import BUCKETS_MAX

pytestmark = pytest.mark.embedded_log_only

MODULES: Final = (
    cluster_pb2,
    log_pb2,
    admin_pb2,
    console_pb2,
    resp_endpoint_pb2,
    keyvalue_pb2,
    kv_pb2,
    tables_pb2,
    node_pb2,
)

METHODS: Final = [
    method
    for module in MODULES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]

# How many there are at most of each repeated field that a request may have.
MOST: Final = {
    "ReadRequest.parts": PARTS_MAX,
    "ReadPart.keys": READ_KEYS_MAX // PARTS_MAX,  # of all parts together at most READ_KEYS_MAX
    "WriteRequest.parts": PARTS_MAX,
    "OutcomesRequest.parts": PARTS_MAX,
    "AppendManyRequest.parts": PARTS_MAX,
    "KVGetManyRequest.keys": GET_MANY_KEYS_MAX,
    "KVWriteRequest.writes": GROUP_RECORDS_MAX,
    "KVFindRequest.order": INDEX_FIELDS_MAX,
    "ConsoleFindRequest.order": INDEX_FIELDS_MAX,
    "DigestRequest.list_buckets": BUCKETS_MAX,
    "TableDefinition.indexes": INDEXES_MAX,
    "TableDefinition.first_indexes": INDEXES_MAX,
    "TableDefinition.building": INDEXES_MAX,
    "TableDefinition.partial_indexes": INDEXES_MAX,
    "TableDefinition.first_partial_indexes": INDEXES_MAX,
    "TableDefinition.partial_building": INDEXES_MAX,
    "TableDefinition.text_indexes": INDEXES_MAX,
    "TableDefinition.text_building": INDEXES_MAX,
    "IndexChange.fields": INDEX_FIELDS_MAX,
    "IndexChange.where": INDEX_FIELDS_MAX,
    "TableIndexDefinition.where": INDEX_FIELDS_MAX,
    "TableIndexDefinition.fields": INDEX_FIELDS_MAX,
    "ScanRequest.after": PARTITIONS_MAX,
    "ScanRequest.partitions": PARTITIONS_MAX,
    "ScanRequest.table_versions": PARTITIONS_MAX,
    "WatchRequest.start": PARTITIONS_MAX,
    "WatchRequest.partitions": PARTITIONS_MAX,
    "ProducerRequest.partitions": PARTITIONS_MAX,
    "AdminAuditDataRequest.acknowledged": RUNS_MAX,
    "AdminNoteAuditRequest.parts": PARTITIONS_MAX,
    "TableDefinition.key_fields": KEY_FIELDS_MAX,
    "TableDefinition.schemas": SCHEMAS_MAX,
}

LARGE: Final = {
    "KeyValue.Read": 90_002,
    "KeyValue.Outcomes": 60_001,
    "Log.AppendMany": 40_000,
    "KV.Write": 90_003,
    "Admin.AuditData": 90_003,
}


def filled(kind: Any) -> Any:
    """A message in which every field is set, and of each `oneof` the member with the most fields."""
    message = message_factory.GetMessageClass(kind)()
    for group in kind.oneofs:
        set_field(message, max(group.fields, key=lambda field: fields_of(field.message_type)))
    for field in kind.fields:
        if field.containing_oneof is None:
            set_field(message, field)
    return message


def fields_of(kind: Any) -> int:
    return 0 if kind is None else fields(filled(kind))


def fields(message: Any) -> int:
    return count_fields(message.SerializeToString(), message.DESCRIPTOR, 10 * FIELDS_MAX)


def set_field(message: Any, field: Any) -> None:
    value = filled(field.message_type) if field.message_type is not None else scalar(field)
    if field.is_repeated:
        name = f"{field.containing_type.name}.{field.name}"
        assert name in MOST, f"say in MOST how many {name} a request may have"
        getattr(message, field.name).extend([value] * MOST[name])
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(value)
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, value)


def scalar(field: Any) -> Any:
    """Not the default, which is not sent; two bytes long where it is a number in a packed field."""
    if field.type == FieldDescriptor.TYPE_BYTES:
        return b"k"
    if field.type == FieldDescriptor.TYPE_STRING:
        return "k"
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return True
    return 1 if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM else BUCKETS_MAX - 1


def name_of(method: Any) -> str:
    return f"{method.containing_service.name}.{method.name}"


@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_the_largest_request_is_not_refused(method: Any) -> None:
    count = fields(filled(method.input_type))
    assert count <= FIELDS_MAX, f"{name_of(method)} may have {count} fields: fewer parts, or a higher FIELDS_MAX"
    assert count == LARGE.get(name_of(method), count)


def test_each_of_the_large_ones_is_counted() -> None:
    assert set(LARGE) <= set(map(name_of, METHODS))
