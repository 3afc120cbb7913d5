"""What a read must have applied: from `after`, `level` and `max_lag_ms` to offsets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from log_tier.model.errors import InvalidRequest, InvalidToken
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from router.data.freshness import Freshness, FreshnessLevel
from router.proto import kv_pb2 as kv

__all__ = ["check_token", "freshness_of", "parse_token"]

# What was acknowledged longer than a day before is no bound worth naming.
_LAG_MAX_MS: Final = 86_400_000

# Offsets are 64-bit numbers everywhere, and the next one must be one too.
_OFFSET_MAX: Final = (1 << 63) - 2


_LEVELS: Final[Mapping[int, FreshnessLevel]] = {
    kv.KV_LEVEL_UNSPECIFIED: "session",
    kv.KV_LEVEL_SESSION: "session",
    kv.KV_LEVEL_EVENTUAL: "eventual",
    kv.KV_LEVEL_STRONG: "strong",
    kv.KV_LEVEL_BOUNDED: "bounded",
}

_Read = kv.KVGetRequest | kv.KVGetManyRequest | kv.KVScanRequest | kv.KVFindRequest


def parse_token(text: str) -> Token | None:
    """The token of an `after`; None where it is empty. Raises `InvalidToken`."""
    return Token.parse(text) if text else None


def check_token(table: TableRef, token: Token | None) -> Mapping[Partition, Offset]:
    """The offsets that a token names for a table. Raises `InvalidToken`, also for another table's."""
    if token is None:
        return {}
    offsets = token.offsets(table.id, table_name=table.name)
    for partition, offset in offsets.items():
        if partition >= table.partitions or offset > _OFFSET_MAX:
            raise InvalidToken(
                f"the token names offset {offset} of partition {partition}; {table.name} has {table.partitions} "
                f"partitions, and offsets end at {_OFFSET_MAX}: it was not made here"
            )
    return offsets


def freshness_of(table: TableRef, token: Token | None, request: _Read) -> Freshness:
    """What a read with this token asks for.

    Raises `InvalidRequest` for a level that does not exist, or a bound without its level; `InvalidToken`.
    """
    level = _LEVELS.get(request.level)
    if level is None:
        raise InvalidRequest(f"level is one of {', '.join(kv.KVLevel.keys())}, not {request.level}")
    lag = request.max_lag_ms
    bounded = level == "bounded"
    if bounded and not 1 <= lag <= _LAG_MAX_MS:
        raise InvalidRequest(f"KV_LEVEL_BOUNDED takes max_lag_ms of 1 to {_LAG_MAX_MS} milliseconds, not {lag}")
    if lag and not bounded:
        raise InvalidRequest(f"max_lag_ms is for KV_LEVEL_BOUNDED: set the level, or leave out the {lag}")
    return Freshness(level, check_token(table, token), lag)
