"""What a gRPC call is about, from its message: table, partitions, first key. Looked at only where a call was slow.

The messages of the data services have few shapes: parts with a table's id and a partition; the same without parts; a
table's name with a key, keys, or writes. Keys written as text (`KV_FORM_JSON`) are looked at as they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import decoded_bytes, read_header
from log_tier.model.errors import DuramenError, InvalidKey, InvalidRequest
from log_tier.model.identifiers import PartitionId, partition_id, table_id_from_bytes
from log_tier.rows.json_rows.json_table import KEYED_TEXT_MAX, JsonTable
from log_tier.slow_calls.slow_call import KEY_BYTES_MAX, NO_SUBJECT, CallKind, CallSubject

__all__ = ["CALL_KINDS", "FIRST_ONLY", "first_key_of", "key_text_of", "stored_keys", "subject_of"]

CALL_KINDS: Final[dict[str, CallKind]] = {
    "/duramen.v1.KeyValue/Read": "read",
    "/duramen.v1.KeyValue/Write": "write",
    "/duramen.v1.KeyValue/Outcomes": "write",
    "/duramen.v1.KeyValue/Scan": "scan",
    "/duramen.v1.KeyValue/Producer": "other",
    "/duramen.v1.KV/Get": "read",
    "/duramen.v1.KV/GetMany": "read",
    "/duramen.v1.KV/History": "read",
    "/duramen.v1.KV/Put": "write",
    "/duramen.v1.KV/Delete": "write",
    "/duramen.v1.KV/Update": "write",
    "/duramen.v1.KV/Write": "write",
    "/duramen.v1.KV/EndToken": "other",
    "/duramen.v1.KV/Find": "scan",
    "/duramen.v1.KV/Scan": "scan",
    "/duramen.v1.KV/Watch": "other",
    "/duramen.v1.KeyValue/Watch": "other",
    "/duramen.v1.Log/Append": "write",
    "/duramen.v1.Log/AppendMany": "write",
    "/duramen.v1.Log/Bounds": "other",
    "/duramen.v1.Log/AllBounds": "other",
    "/duramen.v1.Tables/Create": "other",
    "/duramen.v1.Tables/Find": "other",
    "/duramen.v1.Tables/List": "other",
    "/duramen.v1.Tables/Definition": "other",
    "/duramen.v1.Tables/Describe": "other",
    "/duramen.v1.Tables/Alter": "other",
    "/duramen.v1.Tables/SetRetention": "other",
    "/duramen.v1.Tables/Drop": "other",
}
"""The methods whose calls are measured, and what kind of request carries them. Of streams their messages are."""

FIRST_ONLY: Final = frozenset({"/duramen.v1.KV/Watch", "/duramen.v1.KeyValue/Watch"})
"""Streams whose later messages wait for somebody's write."""

# Of a request with more parts, or a larger batch: a few say what it was about, and it may have thousands.
_PARTS_MAX: Final = 16
_BATCH_BYTES_MAX: Final = 4096
_LONE_BYTES_MAX: Final = 1 << 20


def subject_of(request: Any, cluster: ClusterMap | None) -> CallSubject:
    """What a message is about. `cluster`: the map with its tables; None: no names are known. Raises nothing."""
    fields = request.DESCRIPTOR.fields_by_name
    if "table" in fields or "name" in fields:
        return _by_name(request, cluster)
    if "parts" in fields:
        return _by_id(request.parts, cluster)
    return _by_id((request,), cluster) if "table_id" in fields or "topic_id" in fields else NO_SUBJECT


def _by_name(request: Any, cluster: ClusterMap | None) -> CallSubject:
    fields = request.DESCRIPTOR.fields_by_name
    entry = None if cluster is None else cluster.named(request.table if "table" in fields else request.name)
    items: Any = ()
    if "key" in fields:
        items = (request.key,)
    elif "keys" in fields:
        items = request.keys
    elif "writes" in fields:
        items = request.writes
    if entry is None:
        return CallSubject(None, items=len(items))
    keys = [item if isinstance(item, bytes) else item.key for item in islice(items, _PARTS_MAX)]
    if entry.definition is not None and _is_text(request):
        form = JsonTable(entry.definition)
        keys = stored_keys(form, keys)
        if not all(keys):
            keys = _keys_in_rows(form, request, keys)
    partition_of = entry.ref.partition_of
    places = list(dict.fromkeys(entry.partition(partition_of(key)) for key in keys if key))
    # A range may have keys in each partition, and a row whose key is not found may be of each.
    if "prefix" in fields or "where" in fields or (keys and not all(keys)):
        places = [entry.partition(number) for number in range(min(_PARTS_MAX, entry.partitions))]
    return CallSubject(entry.name, places, (keys[0][:KEY_BYTES_MAX] or None) if keys else None, len(items))


def key_text_of(subject: CallSubject, cluster: ClusterMap | None) -> str:
    """The key as its fields, as far as it was kept; empty: it has none. Some 10 µs."""
    if cluster is None or subject.table is None or not subject.key:
        return ""
    entry = cluster.named(subject.table)
    return "" if entry is None or entry.definition is None else JsonTable(entry.definition).beginning_text(subject.key)


def stored_keys(form: JsonTable, texts: Iterable[bytes]) -> list[bytes]:
    """Keys as they are stored; empty: the text is none of a key."""
    return [_stored_key(form, text) for text in texts]


def _stored_key(form: JsonTable, text: bytes) -> bytes:
    try:
        return form.key(text) if text else b""
    except InvalidKey:
        return b""


def _keys_in_rows(form: JsonTable, request: Any, keys: Sequence[bytes]) -> list[bytes]:
    """The keys, with those of rows that were put without one. Rows together have `KEYED_TEXT_MAX` bytes at most."""
    fields, room, found = request.DESCRIPTOR.fields_by_name, KEYED_TEXT_MAX, list(keys)
    writes = (request,) if "value" in fields else request.writes if "writes" in fields else ()
    for place, write in enumerate(islice(writes, len(found))):
        if not (found[place] or write.key) and len(row := write.value if write is request else write.put) <= room:
            found[place] = form.key_in(row)
            room -= len(row)
    return found


def _is_text(request: Any) -> bool:
    field = request.DESCRIPTOR.fields_by_name.get("form")
    return field is not None and request.form == field.enum_type.values_by_name["KV_FORM_JSON"].number


def _by_id(parts: Any, cluster: ClusterMap | None) -> CallSubject:
    """Of parts that name a table by its id. What is no table's is left out, its key with it."""
    table, key, places = None, None, list[PartitionId]()
    for part in islice(parts, _PARTS_MAX):
        fields = part.DESCRIPTOR.fields_by_name
        try:
            table_id = table_id_from_bytes(part.table_id if "table_id" in fields else part.topic_id)
        except InvalidRequest:
            continue
        entry = None if cluster is None else cluster.tables.get(table_id)
        if entry is None and cluster is not None:
            continue
        if not places:
            table, key = None if entry is None else entry.name, _key_of(part)
        for number in _numbers(part, entry):
            if entry is None or number < entry.partitions:
                places.append(partition_id(table_id, number))
    return CallSubject(table, places, key, len(parts))


def _numbers(part: Any, entry: TableEntry | None) -> Sequence[int]:
    """The first partitions of a part; all of the table's where it names none."""
    fields = part.DESCRIPTOR.fields_by_name
    if "partition" in fields:
        return (part.partition,)
    if "partitions" in fields and part.partitions:
        return list(islice(part.partitions, _PARTS_MAX))
    return range(0 if entry is None else min(_PARTS_MAX, entry.partitions))


def _key_of(part: Any) -> bytes | None:
    """The beginning of the first key of a part."""
    fields = part.DESCRIPTOR.fields_by_name
    keys: Any = ()
    if "keys" in fields:
        keys = part.keys
    elif "batch" in fields:
        return first_key_of(part.batch)
    return bytes(keys[0][:KEY_BYTES_MAX]) if len(keys) else None


def first_key_of(batch: bytes) -> bytes | None:
    """The beginning of the first key of an encoded batch; None: it has many, or is no batch. Some 100 µs; 1 ms for a
    large value.
    """
    with suppress(DuramenError):
        most = _LONE_BYTES_MAX if read_header(batch).records == 1 else _BATCH_BYTES_MAX
        if decoded_bytes(batch) > most:
            return None
        keys = decode_batch(batch).columns.keys
        return bytes(keys[0][:KEY_BYTES_MAX]) if len(keys) else None
    return None
