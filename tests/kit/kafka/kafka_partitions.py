"""A strategy for what lies in a partition: batches, torn ones, others' records, gaps, what no table can hold."""

from __future__ import annotations

from hypothesis import strategies as st

from kit.kafka.kafka_records import Sent, foreign, placed, sent_batch
from log_tier.kafka.records.header import pack_header
from log_tier.model.batch import Columns
from log_tier.model.record import GROUPED

_keys = st.sampled_from([b"a", b"b", b"c" * 20])
_times = st.integers(1000, 1003)


@st.composite
def _columns(draw: st.DrawFn) -> Columns:
    count = draw(st.integers(1, 5))
    keys = draw(st.lists(_keys, min_size=count, max_size=count))
    values = draw(st.lists(st.binary(max_size=3), min_size=count, max_size=count))
    if draw(st.booleans()):
        return Columns(keys, values)
    attributes = draw(st.lists(st.sampled_from([1, 2, 3, 0x101, 0x401, 1 | GROUPED]), min_size=count, max_size=count))
    attributes[0] &= ~GROUPED
    return Columns(keys, values, attributes, None, [5] * count if 0x401 in attributes else None)


@st.composite
def partitions(draw: st.DrawFn) -> list[Sent]:
    """One partition's records, in order."""
    parts: list[list[Sent] | int] = []
    sequence = 0
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["batch", "foreign", "gap", "poison", "torn"]))
        if kind in ("batch", "torn"):
            columns = draw(_columns())
            batch = sent_batch(columns, producer_id=draw(st.sampled_from([0, 7])), sequence=sequence)
            sequence += len(batch)
            parts.append(batch if kind == "batch" else batch[draw(st.integers(0, len(batch))) :])
        elif kind == "foreign":
            values = st.none() | st.binary(max_size=3)
            parts.append([foreign(draw(_keys), draw(values), draw(_times)) for _ in range(draw(st.integers(1, 4)))])
        elif kind == "gap":
            parts.append(draw(st.integers(1, 3)))
        else:
            bad = [foreign(None, b"1"), Sent(b"k", b"v", b"bad"), Sent(b"k", None, pack_header(1, 0, 9, 7, 1))]
            parts.append([draw(st.sampled_from(bad))])
    return placed(*parts, [foreign(b"end", b"")])
