"""A mistake in a call is refused in the same words by the client in Python and by the gRPC service."""

from __future__ import annotations

from typing import Any

import pytest

from duramen.client.model.call_records import record_of
from log_tier.model.errors import DuramenError, InvalidKey, InvalidRequest, InvalidValue
from log_tier.model.record import KEY_BYTES_MAX, UPDATES, UPDATES_BY_NAME, VALUE_BYTES_MAX, Operation
from router.endpoints.grpc.kv.records import group_of, put_record
from router.proto import kv_pb2 as kv

KEY = b"k"


@pytest.mark.parametrize(
    ("key", "value", "arguments", "kind"),
    [
        (b"", b"v", {}, InvalidKey),
        (bytes(KEY_BYTES_MAX + 1), b"v", {}, InvalidKey),
        (KEY, bytes(VALUE_BYTES_MAX + 1), {}, InvalidValue),
        (KEY, b"v", {"if_absent": True, "if_present": True}, InvalidRequest),
        (KEY, b"v", {"if_present": True, "if_version": 3}, InvalidRequest),
        (KEY, b"v", {"if_version": -2}, InvalidRequest),
        (KEY, b"v", {"ttl": 5, "keep_ttl": True}, InvalidRequest),
    ],
)
def test_the_same_mistake_gives_the_same_error(
    key: bytes, value: bytes, arguments: dict[str, Any], kind: type[DuramenError]
) -> None:
    with pytest.raises(kind) as of_client:
        record_of(Operation.PUT, key, value, **arguments)
    fields = {"ttl_ms" if name == "ttl" else name: given for name, given in arguments.items()}
    with pytest.raises(kind) as of_service:
        put_record(kv.KVPutRequest(key=key, value=value, **fields))
    with pytest.raises(kind) as of_group:
        group_of([kv.KVWrite(key=key, put=value, **fields)])
    assert of_client.value.message == of_service.value.message == of_group.value.message
    assert of_client.value.fields == of_service.value.fields == of_group.value.fields


def test_the_same_put_is_the_same_record() -> None:
    request = kv.KVPutRequest(key=KEY, value=b"v", ttl_ms=1500, if_version=7)
    assert put_record(request) == (record_of(Operation.PUT, KEY, b"v", ttl=1.5, if_version=7), True)
    assert put_record(kv.KVPutRequest(key=KEY, value=b"v")) == (record_of(Operation.PUT, KEY, b"v"), False)


def test_every_update_has_a_name() -> None:
    assert frozenset(UPDATES_BY_NAME.values()) == UPDATES
    assert list(UPDATES_BY_NAME) == ["add", "multiply", "min", "max", "append"]
