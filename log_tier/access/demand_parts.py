"""What a demand asks for, table by table, as a row of the audit names it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from log_tier.access.demands import (
    CLUSTER_ADMIN,
    AllDemands,
    BatchDemand,
    Demand,
    PrefixDemand,
    RangeDemand,
    SpecialDemand,
)
from log_tier.audit.audit_event import AuditKind
from log_tier.model.batch import decode_batch
from log_tier.model.errors import DuramenError
from log_tier.trust.grants import Right, key_prefix_text

__all__ = ["DemandPart", "KeysInRows", "common_prefix_text", "parts_of"]

DemandPart = tuple[AuditKind, str, str]
"""What a part of a demand asks for: its kind, the table, and what its keys begin with."""

KeysInRows = Callable[[str, Sequence[bytes]], Sequence[bytes]]
"""The texts of the keys that rows of a table have inside; empty where one has none."""


def parts_of(demand: Demand, *, with_keys: bool, keys_in: KeysInRows | None = None) -> Iterator[DemandPart]:
    """What a demand asks for, table by table. O(keys) with their common beginning. `keys_in`: looks for the keys of
    rows that are put without them; None: they are not looked for.
    """
    if isinstance(demand, AllDemands):
        for each in demand.demands:
            yield from parts_of(each, with_keys=with_keys, keys_in=keys_in)
    elif isinstance(demand, SpecialDemand):
        yield ("admin" if demand is CLUSTER_ADMIN else "call", "", "")
    elif isinstance(demand, BatchDemand):
        yield "write", demand.table, common_prefix_text(_batch_keys(demand.batch)) if with_keys else ""
    elif isinstance(demand, PrefixDemand):
        texts = common_prefix_text(_texts_of(demand, keys_in)) if with_keys else ""
        yield _kind(demand.right), demand.table, key_prefix_text(demand.prefix) if demand.prefix else texts
    elif isinstance(demand, RangeDemand):
        yield _kind(demand.right), demand.table, common_prefix_text((demand.start, demand.end)) if demand.end else ""
    elif demand.keys:
        yield _kind(demand.right), demand.table, common_prefix_text(demand.keys) if with_keys else ""
    else:
        yield "call", demand.table, ""  # a question about the table itself


def _texts_of(demand: PrefixDemand, keys_in: KeysInRows | None) -> Sequence[bytes]:
    """The keys of a call as text, with those that are inside of rows."""
    if keys_in is None or not demand.rows:
        return demand.texts
    found = iter(keys_in(demand.table, demand.rows))
    return [text or next(found, b"") for text in demand.texts]


def _kind(right: Right) -> AuditKind:
    return right.value


def _batch_keys(batch: bytes) -> Sequence[bytes]:
    try:
        return decode_batch(batch).columns.keys
    except DuramenError:
        return ()  # the call is refused for it


def common_prefix_text(keys: Sequence[bytes]) -> str:
    """What all keys begin with, as a grant's `--key` takes it. O(keys)."""
    if not keys:
        return ""
    least, most = min(keys), max(keys)
    if least == most:
        return key_prefix_text(least)
    # Whatever lies between two keys begins as both do.
    shortest = min(len(least), len(most))
    differs = bisect_left(range(1, shortest + 1), True, key=lambda size: least[:size] != most[:size])
    return key_prefix_text(least[:differs])
