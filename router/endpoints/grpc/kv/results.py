"""Replies: entries, and the tokens that go with them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from log_tier.model.identifiers import Offset, Partition
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from router.data.requests import ReadResult
from router.proto import kv_pb2 as kv

__all__ = ["entry_of", "token_text"]


def token_text(table: TableRef, offsets: Mapping[Partition, Offset], after: Token | None) -> str:
    """The token of a reply: what it showed or wrote, and what its request's `after` named."""
    token = Token({table.id: offsets})
    return str(token if after is None else after.merge(token))


def entry_of(key: bytes, result: ReadResult, number: int) -> kv.KVEntry:
    """One key of a read."""
    value = result.values[number]
    if value is None:
        return kv.KVEntry(key=key, version=-1)
    expires = result.expiries[number] if result.expiries else 0
    return kv.KVEntry(key=key, value=value, version=result.versions[number], expires_at_ms=expires)
