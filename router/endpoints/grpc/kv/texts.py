"""KV_FORM_JSON: requests with keys and values as they are stored, and replies with their text. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from log_tier.model.errors import InvalidRequest, UnknownFormat
from log_tier.model.record import Operation
from log_tier.rows.framing import FRAME_BYTES
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rows.json_rows.strict_json import strict_json
from log_tier.rows.patches.row_patch import read_patch
from router.proto import kv_pb2 as kv

__all__ = ["range_of_texts", "shown_change", "shown_entries", "stored_update", "stored_write", "unknown_schema"]

_Written = TypeVar("_Written", kv.KVPutRequest, kv.KVWrite)

_OF_PARTS: Final = frozenset({"add", "multiply", "min", "max", "append"})
"""Updates of a value that is a number, or bytes."""


def stored_write(form: JsonTable, write: _Written) -> _Written:
    """A put, or a write of a group, as it is stored. Raises `InvalidKey`, `InvalidRow`, `InvalidRequest`."""
    found = type(write)()
    found.CopyFrom(write)
    if isinstance(found, kv.KVPutRequest):
        found.key, found.value = _pair(form, found.key, found.value)
    elif found.WhichOneof("operation") == "put":
        found.key, found.put = _pair(form, found.key, found.put)
    else:
        _update(form, found)
    return found


def stored_update(form: JsonTable, update: kv.KVUpdateRequest) -> kv.KVUpdateRequest:
    """An update as it is stored. Raises `InvalidKey`, `InvalidRow`, `InvalidRequest`."""
    found = kv.KVUpdateRequest()
    found.CopyFrom(update)
    _update(form, found)
    return found


def range_of_texts(form: JsonTable, request: kv.KVScanRequest) -> kv.KVScanRequest:
    """A scan with its bounds as they are stored. Raises `InvalidKey`."""
    found = kv.KVScanRequest()
    found.CopyFrom(request)
    for name in ("prefix", "start", "end"):
        text = getattr(request, name)
        if text and form.fields:
            setattr(found, name, form.first_fields(text))
    if request.start_after:
        found.start_after = form.key(request.start_after)
    return found


def shown_entries(form: JsonTable, entries: Iterable[kv.KVEntry]) -> list[kv.KVEntry]:
    """The same entries with their text. Raises `UnknownFormat` for a row of a schema that `form` does not have,
    `LimitExceeded` for one whose text is too long.
    """
    for entry in entries:
        entry.key = form.key_text(entry.key)
        if entry.HasField("value"):
            entry.value = form.value_text(entry.value)
    return list(entries)


def shown_change(form: JsonTable, operation: int, key: bytes, value: bytes | None) -> tuple[bytes, bytes | None]:
    """The key and the value of a change as text. Raises as `shown_entries`."""
    if operation == Operation.BARRIER:
        return key, value
    if value is not None and operation == Operation.PUT:
        value = form.value_text(value)
    elif value is not None and operation == Operation.PATCH:
        number = read_patch(value).schema
        if number not in {each.number for each in form.definition.schemas}:
            raise UnknownFormat(f"an update of fields has schema {number}, which is not known here", schema=number)
        value = json.dumps(form.patch_json(value), ensure_ascii=False, separators=(",", ":")).encode()
    return form.key_text(key), value


def unknown_schema(form: JsonTable, values: Iterable[bytes | None]) -> int:
    """The number of a schema that rows have and `form` does not; 0: there is none. Some 0.2 µs a value."""
    if not form.holds_rows:
        return 0
    known = {each.number for each in form.definition.schemas}
    met = {int.from_bytes(value[1:FRAME_BYTES]) for value in values if value is not None}
    return max(met - known, default=0)


def _pair(form: JsonTable, key: bytes, text: bytes) -> tuple[bytes, bytes]:
    if not key and form.has_key_in_row:
        return form.row(text)
    return form.pair(key, text)


def _update(form: JsonTable, update: kv.KVUpdateRequest | kv.KVWrite) -> None:
    update.key = form.key(update.key)
    named = update.WhichOneof("operation")
    if named == "patch":
        update.patch = form.patch(_operations(update.patch))
    elif named in _OF_PARTS and form.definition.value in ("row", "json"):
        kind = "rows" if form.holds_rows else "JSON"
        instead = "patch changes their fields" if form.holds_rows else "put the value as a whole"
        raise InvalidRequest(f"values of this table are {kind}, and {named} is for numbers and text: {instead}")


def _operations(text: bytes) -> Mapping[str, Mapping[str, Any]]:
    try:
        found = strict_json(text.decode())
    except ValueError as error:
        raise InvalidRequest(f"the patch is no JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise InvalidRequest('a patch is an object of objects: {"set": {"gate": "B7"}, "add": {"seats": -1}}')
    return found
