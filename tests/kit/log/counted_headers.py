"""Headers of batches as a log stamps them, for what counts them."""

from __future__ import annotations

from hypothesis import strategies as st

from log_tier.model.batch_header import MAGIC, BatchHeader
from log_tier.model.identifiers import Offset

__all__ = ["header", "headers"]


def header(base: int, span: int, timestamp_ms: int, *, checksum: int | None = None) -> BatchHeader:
    """The header of a stored batch; its stamp's checksum follows from its place where none is given."""
    stamp = (base * 2_654_435_761 + timestamp_ms * 40_503 + span) & 0xFFFFFFFF if checksum is None else checksum
    return BatchHeader(MAGIC, 2, 0, 0, 64, 0, Offset(base), timestamp_ms, 0, stamp, 0, 0, span, span)


@st.composite
def headers(draw: st.DrawFn, *, at_least: int = 0) -> list[BatchHeader]:
    """A log of up to 14 batches without gaps, whose timestamps never fall; some are hours apart."""
    found, base, time_ms = [], 0, draw(st.integers(0, 10**7))
    for _ in range(draw(st.integers(at_least, 14))):
        span = draw(st.integers(1, 6))
        time_ms += draw(st.sampled_from([0, 1, 20_000, 60_000, 61_000, 3_600_000, 20 * 3_600_000]))
        found.append(header(base, span, time_ms, checksum=draw(st.integers(1, 0xFFFFFFFF))))
        base += span
    return found
