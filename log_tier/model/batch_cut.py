"""A stored batch, cut at an offset: for readers that need the state at exactly that offset."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from log_tier.model.batch import Columns, decode_batch, encode_batch
from log_tier.model.batch_header import NOWHERE, Place, read_header, split_batches, stamp_batch
from log_tier.model.identifiers import Offset
from log_tier.model.record import GROUPED

__all__ = ["cut_batch", "cut_run"]


def cut_batch(batch: bytes, last: Offset, place: Place | None = None) -> bytes:
    """The part of a stored batch that ends with offset `last`, as a stored batch.

    For readers that need the state at exactly that offset. An atomic group that reaches beyond it is left out whole.
    Raises as `check_batch` does. It costs a decoding and an encoding; `last` lies inside the batch.
    """
    decoded = decode_batch(batch, place)
    header, columns = decoded.header, decoded.columns
    assert header.base_offset <= last <= header.last_offset, f"{last} is outside of {header}"
    kept = bisect_right(decoded.offsets(), last)
    attributes = columns.attributes
    if attributes is not None and kept < header.records:
        while kept and attributes[kept] & GROUPED:
            kept -= 1
    cut = encode_batch(
        Columns(*(None if column is None else column[:kept] for column in _columns_of(columns))),  # type: ignore[arg-type]
        producer_id=header.producer_id,
        sequence=header.sequence,
        span=last - header.base_offset + 1,
    )
    return stamp_batch(
        cut,
        base_offset=header.base_offset,
        timestamp_ms=header.timestamp_ms,
        unsynced=header.unsynced,
        place=NOWHERE if place is None else place,
    )


def cut_run(data: bytes, last: Offset, place: Place | None = None) -> bytes:
    """The batches of a run that end with offset `last`; one that reaches beyond it is cut."""
    parts: list[bytes] = []
    for batch in split_batches(data):
        header = read_header(batch)
        if header.base_offset > last:
            break
        parts.append(batch if header.last_offset <= last else cut_batch(batch, last, place))
    return b"".join(parts)


def _columns_of(columns: Columns) -> tuple[Sequence[bytes] | Sequence[int] | None, ...]:
    return (
        columns.keys,
        columns.values,
        columns.attributes,
        columns.versions,
        columns.expiries,
        columns.deltas,
    )
