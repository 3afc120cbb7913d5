"""What the methods of `duramen.v1.KV`, `duramen.v1.KeyValue`, `duramen.v1.Tables`, `duramen.v1.RespEndpoint` and
`duramen.v1.Console` demand.

A write whose reply tells what was there needs `read` on its key as well: one with a condition, and an update. So what a
user may only write it cannot guess.
"""

from __future__ import annotations

from typing import Any, Final

from log_tier.access.demands import AllDemands, BatchDemand, Demand, KeyDemand, PrefixDemand, RangeDemand
from log_tier.access.rules import MethodRules, Rule, TableNames, any_user
from log_tier.model.identifiers import table_id_from_bytes
from log_tier.trust.grants import Right
from router.proto import kv_pb2 as kv

__all__ = ["DATA_RULES"]


def _on_key(right: Right) -> Rule:
    def demand(request: Any, _names: TableNames) -> Demand:
        if _is_text(request):
            return PrefixDemand(right, request.table, texts=(request.key,))
        return KeyDemand(right, request.table, (request.key,))

    return demand


def _console_get(request: Any, _names: TableNames) -> Demand:
    if request.key_fields:
        return PrefixDemand(Right.READ, request.table, texts=(request.key_fields.encode(),))
    return KeyDemand(Right.READ, request.table, (request.key,))


def _is_text(request: Any) -> bool:
    """Are the request's keys text, and so not what grants on a key prefix are about? The console's requests have stored
    ones.
    """
    return getattr(request, "form", kv.KV_FORM_STORED) not in (kv.KV_FORM_UNSPECIFIED, kv.KV_FORM_STORED)


def _get_many(request: Any, _names: TableNames) -> Demand:
    if _is_text(request):
        return PrefixDemand(Right.READ, request.table, texts=tuple(request.keys))
    return KeyDemand(Right.READ, request.table, tuple(request.keys))


def _written(table: str, writes: Any, *, is_text: bool) -> Demand:
    if is_text:
        rights = [Right.WRITE, Right.READ] if any(map(_tells, writes)) else [Right.WRITE]
        texts = tuple(each.key for each in writes)
        rows = () if all(texts) else tuple(_row_of(each) for each in writes if not each.key)
        return _of_parts([PrefixDemand(right, table, texts=texts, rows=rows) for right in rights])
    write = KeyDemand(Right.WRITE, table, tuple(each.key for each in writes))
    shown = tuple(each.key for each in writes if _tells(each))
    return AllDemands((write, KeyDemand(Right.READ, table, shown))) if shown else write


def _row_of(write: Any) -> bytes:
    """The row that a write puts, which may have its key inside; empty: it puts none."""
    if isinstance(write, kv.KVPutRequest):
        return write.value
    return write.put if isinstance(write, kv.KVWrite) else b""


def _tells(write: Any) -> bool:
    """Does the reply tell what was there? `write` is a `KVWrite`, or a request of one of its operations."""
    fields = write.DESCRIPTOR.fields_by_name
    if "operation" in write.DESCRIPTOR.oneofs_by_name and write.WhichOneof("operation") not in ("put", "delete"):
        return True
    return bool(
        write.HasField("if_version")
        or ("if_absent" in fields and write.if_absent)
        or ("if_present" in fields and write.if_present)
    )


def _one_write(request: Any, _names: TableNames) -> Demand:
    return _written(request.table, (request,), is_text=_is_text(request))


def _group(request: Any, _names: TableNames) -> Demand:
    return _written(request.table, request.writes, is_text=_is_text(request))


def _kv_scan(request: Any, _names: TableNames) -> Demand:
    if _is_text(request):
        return PrefixDemand(Right.READ, request.table, texts=(request.prefix,) if request.prefix else ())
    if request.prefix:
        return PrefixDemand(Right.READ, request.table, request.prefix)
    return RangeDemand(
        Right.READ, request.table, max(request.start, getattr(request, "start_after", b"")), request.end or None
    )


def _whole_table(right: Right) -> Rule:
    return lambda request, _names: PrefixDemand(right, request.table)


def _sees(request: Any, _names: TableNames) -> Demand:
    return KeyDemand(Right.READ, request.table, ())


def _read(request: Any, names: TableNames) -> Demand:
    return _of_parts(
        [KeyDemand(Right.READ, names(table_id_from_bytes(part.table_id)), tuple(part.keys)) for part in request.parts]
    )


def _write(request: Any, names: TableNames) -> Demand:
    return _of_parts([BatchDemand(names(table_id_from_bytes(part.table_id)), part.batch) for part in request.parts])


def _outcomes(request: Any, names: TableNames) -> Demand:
    """An outcome names no key and shows what updates gave: for who may read and write the whole table."""
    tables = sorted({names(table_id_from_bytes(part.table_id)) for part in request.parts})
    return _of_parts([PrefixDemand(right, table) for table in tables for right in (Right.WRITE, Right.READ)])


def _of_parts(demands: list[Any]) -> Demand:
    return demands[0] if len(demands) == 1 else AllDemands(tuple(demands))


def _scan(request: Any, names: TableNames) -> Demand:
    table = names(table_id_from_bytes(request.table_id))
    if request.index or request.HasField("search"):
        return PrefixDemand(Right.READ, table)  # whatever its range, rows of any key may be in it
    return RangeDemand(Right.READ, table, request.start, request.end or None)


def _watch(request: Any, names: TableNames) -> Demand:
    return PrefixDemand(Right.READ, names(table_id_from_bytes(request.table_id)))


def _producer(request: Any, names: TableNames) -> Demand:
    return KeyDemand(Right.WRITE, names(table_id_from_bytes(request.table_id)), ())


def _of_name(right: Right) -> Rule:
    return lambda request, _names: PrefixDemand(right, request.name)


def _sees_name(request: Any, _names: TableNames) -> Demand:
    return KeyDemand(Right.READ, request.name, ())


def _sees_id(request: Any, names: TableNames) -> Demand:
    return KeyDemand(Right.READ, names(table_id_from_bytes(request.table_id)), ())


DATA_RULES: Final[MethodRules] = {
    "/duramen.v1.KV/Put": _one_write,
    "/duramen.v1.KV/Get": _on_key(Right.READ),
    "/duramen.v1.KV/GetMany": _get_many,
    "/duramen.v1.KV/History": _on_key(Right.READ),
    "/duramen.v1.KV/Delete": _one_write,
    "/duramen.v1.KV/Update": _one_write,
    "/duramen.v1.KV/Write": _group,
    "/duramen.v1.KV/Scan": _kv_scan,
    # Rows of any key may be found.
    "/duramen.v1.KV/Find": _whole_table(Right.READ),
    "/duramen.v1.KV/Watch": _whole_table(Right.READ),
    "/duramen.v1.KV/EndToken": _sees,
    "/duramen.v1.KeyValue/Read": _read,
    "/duramen.v1.KeyValue/Write": _write,
    "/duramen.v1.KeyValue/Scan": _scan,
    "/duramen.v1.KeyValue/Watch": _watch,
    "/duramen.v1.KeyValue/Producer": _producer,
    "/duramen.v1.KeyValue/Outcomes": _outcomes,
    "/duramen.v1.Tables/Create": _of_name(Right.ADMIN),
    "/duramen.v1.Tables/Find": _sees_name,
    # The reply has the tables that the caller sees.
    "/duramen.v1.Tables/List": any_user,
    "/duramen.v1.Tables/Definition": _sees_id,
    "/duramen.v1.Tables/Describe": _sees_name,
    "/duramen.v1.Tables/Alter": _of_name(Right.ADMIN),
    "/duramen.v1.Tables/SetRetention": _of_name(Right.ADMIN),
    "/duramen.v1.Tables/Drop": _of_name(Right.ADMIN),
    "/duramen.v1.RespEndpoint/Describe": any_user,
    "/duramen.v1.Console/Get": _console_get,
    "/duramen.v1.Console/Scan": _kv_scan,
    "/duramen.v1.Console/Find": _whole_table(Right.READ),
    # A log shows all keys of its partition, as a watch does.
    "/duramen.v1.Console/Records": _whole_table(Right.READ),
}
