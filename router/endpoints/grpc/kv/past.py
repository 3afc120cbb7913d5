"""The past of a table with a history: the state that a request names, and the versions of a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from log_tier.access.user_turns import run_in_turn
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.record import check_key
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from log_tier.rows.json_rows.json_table import JsonTable
from router.data.past.asked_past import AskedPast
from router.data.past.past_requests import check_versions, present_versions
from router.data.requests import ReadResult
from router.endpoints.grpc.kv.forms import TableText
from router.endpoints.grpc.kv.freshness import check_token, parse_token
from router.endpoints.grpc.kv.plane import Plane
from router.endpoints.grpc.kv.reads import check_size, past_parts, read_parts
from router.endpoints.grpc.kv.results import token_text
from router.proto import kv_pb2 as kv

__all__ = ["history_of", "past_of", "token_of"]

_VERSIONS: Final = 100
"""Where a request does not say how many."""

_VERSION_ITEMS: Final = 20
"""A version costs as much as so many bytes of a row's text."""

_VERSION_KEYS: Final = 5
"""A version, which has a token, costs as much as so many keys."""

_AsOf = kv.KVGetRequest | kv.KVGetManyRequest | kv.KVScanRequest | kv.KVHistoryRequest


def past_of(table: TableRef, request: _AsOf) -> AskedPast | None:
    """The state that a request names; None: it reads the present.

    Raises `InvalidToken`, and `InvalidRequest` for a request that says besides how fresh the answer must be.
    """
    named = request.WhichOneof("at")
    if named is None:
        return None
    is_level = not isinstance(request, kv.KVHistoryRequest) and (request.level or request.max_lag_ms)
    if request.after or is_level:
        raise InvalidRequest(f"{named} names the state that is read: leave out after, level and max_lag_ms")
    if named == "at_time_ms":
        return AskedPast(table, {}, request.at_time_ms or -1)  # 0 would ask for no time, and nothing was written then
    return AskedPast(table, check_token(table, Token.parse(request.at_token)))


def token_of(past: AskedPast | None, after: Token | None) -> Token | None:
    """What a reply's token names besides what was read: the state that was asked for, or what `after` named."""
    return after if past is None else Token({past.table.id: past.offsets})


async def history_of(
    plane: Plane, table: TableRef, request: kv.KVHistoryRequest, deadline: float, text: TableText | None
) -> kv.KVHistoryResponse:
    """The versions of a key. One request. Raises as `past_of`, and what a read of the past raises."""
    token = parse_token(request.after)
    past = past_of(table, request)
    limit = check_versions(request.limit or _VERSIONS)
    key = check_key(request.key if text is None else text.form.key(request.key))
    partition = table.partition_of(key)
    if past is None:
        after = check_token(table, token).get(partition, NOTHING)
        part = present_versions(table.partition(partition), key, after, limit)
    else:
        (part,) = await past_parts(plane, past, [(key,)], deadline, limit)
    (found,) = await read_parts(plane, [part], deadline)

    def reply(form: JsonTable | None = None) -> kv.KVHistoryResponse:
        versions = list(_versions(table.partition(partition), found, form))
        check_size(each.ByteSize() for each in versions)
        shown = token_text(table, {partition: found.applied}, token_of(past, token))
        return kv.KVHistoryResponse(versions=versions, token=shown)

    if text is None:
        return await run_in_turn(len(found.values) * _VERSION_KEYS, reply)
    await text.meet(found.values)
    size = sum(map(len, filter(None, found.values))) + _VERSION_ITEMS * len(found.values)
    return await text.converted(size, reply)


def _versions(place: PartitionId, found: ReadResult, form: JsonTable | None) -> Iterator[kv.KVVersion]:
    count = len(found.values)
    for value, offset, expires_ms, time_ms in zip(
        found.values, found.versions, found.expiries or [0] * count, found.times or [0] * count, strict=True
    ):
        yield kv.KVVersion(
            version=offset,
            value=value if value is None or form is None else form.value_text(value),
            expires_at_ms=expires_ms,
            time_ms=time_ms,
            token=str(Token.of(*place, Offset(offset))),
        )
