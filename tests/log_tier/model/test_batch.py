"""Batches: what goes in comes out, what is malformed is refused, and no single flipped bit passes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_tier.model.batch import (
    BATCH_RECORDS_MAX,
    Columns,
    SealedBatch,
    check_batch,
    decode_batch,
    encode_batch,
    seal_batch,
)
from log_tier.model.batch_cut import cut_batch
from log_tier.model.batch_header import (
    ATTRIBUTES,
    BATCH_BYTES_MAX,
    DELTAS,
    EXPIRIES,
    HEADER_BYTES,
    NOWHERE,
    VERSIONS,
    pack_batch,
    read_header,
    span_of,
    stamp_batch,
)
from log_tier.model.errors import BatchRefused, DuramenError, InvalidKey, InvalidValue, LimitExceeded, UnknownFormat
from log_tier.model.identifiers import Offset
from log_tier.model.record import (
    GROUPED,
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    Condition,
    Expiry,
    Operation,
    attribute_of,
)


@st.composite
def columns(draw: st.DrawFn) -> Columns:
    keys = draw(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=30))
    count = len(keys)

    def some(numbers: st.SearchStrategy[int]) -> list[int] | None:
        return draw(st.none() | st.lists(numbers, min_size=count, max_size=count))

    attributes = some(st.sampled_from([1, 2, 3, 7, attribute_of(Operation.PUT, condition=Condition.ABSENT)]))
    values = draw(st.lists(st.binary(max_size=60), min_size=count, max_size=count))
    signed = st.integers(-(2**63), 2**63 - 1)
    return Columns(keys, values, attributes, some(signed), some(signed))


def stamped(batch: bytes, base: int = 5) -> bytes:
    return stamp_batch(batch, base_offset=Offset(base), timestamp_ms=1_700_000_000_000, unsynced=0)


@given(columns(), st.booleans(), st.integers(0, 2**64 - 1), st.integers(0, 2**63))
def test_what_goes_in_comes_out(given_columns: Columns, compress: bool, producer: int, sequence: int) -> None:
    batch = encode_batch(given_columns, producer_id=producer, sequence=sequence, compress=compress)
    header = check_batch(batch)
    assert (header.producer_id, header.sequence) == (producer, sequence)
    assert header.records == header.span == len(given_columns.keys)
    decoded = decode_batch(stamped(batch))
    assert decoded.header.base_offset == 5
    assert list(decoded.offsets()) == list(range(5, 5 + header.span))
    for name in ("keys", "values", "attributes", "versions", "expiries"):
        before, after = getattr(given_columns, name), getattr(decoded.columns, name)
        assert (after is None) if before is None else (list(after) == before)


@given(columns(), st.booleans(), st.data())
@settings(max_examples=300)
def test_every_flipped_bit_is_noticed(given_columns: Columns, compress: bool, data: st.DataObject) -> None:
    stored = bytearray(stamped(encode_batch(given_columns, compress=compress)))
    bit = data.draw(st.integers(0, len(stored) * 8 - 1))
    stored[bit // 8] ^= 1 << bit % 8
    with pytest.raises((BatchRefused, UnknownFormat)):
        decode_batch(bytes(stored), NOWHERE)


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_never_crashes(data: bytes) -> None:
    for attempt in (data, b"DuLb\x01\x00\x00\x00" + data):
        with pytest.raises((BatchRefused, UnknownFormat)):
            check_batch(attempt)
        with pytest.raises((BatchRefused, UnknownFormat)):
            decode_batch(attempt)


@given(st.binary(max_size=120), st.integers(0, 255), st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=500)
def test_a_body_with_a_right_checksum_and_wrong_columns_is_refused_or_sound(
    body: bytes, flags: int, records: int, span: int
) -> None:
    """A malicious producer can compute checksums: what passes the check must decode."""
    batch = pack_batch(body, flags=flags, producer_id=0, sequence=0, records=records, span=span)
    try:
        check_batch(batch)
    except DuramenError:
        return
    decoded = decode_batch(stamped(batch))
    assert len(decoded.columns.keys) == len(decoded.columns.values) == records


def test_limits_of_keys_and_values_name_the_record() -> None:
    with pytest.raises(InvalidKey, match="record 1 is empty") as caught:
        encode_batch(Columns([b"a", b""], [b"", b""]))
    assert caught.value.fields["record"] == 1
    with pytest.raises(InvalidKey, match="512 bytes"):
        encode_batch(Columns([b"k" * (KEY_BYTES_MAX + 1)], [b""]))
    with pytest.raises(InvalidValue, match="record 0"):
        encode_batch(Columns([b"a"], [bytes(VALUE_BYTES_MAX + 1)]))
    encode_batch(Columns([b"k" * KEY_BYTES_MAX], [bytes(VALUE_BYTES_MAX)]))


def test_limits_of_a_batch() -> None:
    with pytest.raises(LimitExceeded, match="split it"):
        encode_batch(Columns([b"k"] * (BATCH_RECORDS_MAX + 1), [b""] * (BATCH_RECORDS_MAX + 1)))
    with pytest.raises(LimitExceeded, match="split it") as caught:
        encode_batch(Columns([b"k"] * 5, [bytes(VALUE_BYTES_MAX)] * 5))
    assert caught.value.fields["limit"] == BATCH_BYTES_MAX
    assert check_batch(encode_batch(Columns([b"k"] * BATCH_RECORDS_MAX, [b""] * BATCH_RECORDS_MAX)))


def test_a_no_op_may_have_an_empty_key() -> None:
    check_batch(encode_batch(Columns([b"", b"a"], [b"", b"1"], [0, 1])))


def test_a_compacted_batch_keeps_its_offsets() -> None:
    batch = encode_batch(Columns([b"a", b"d"], [b"1", b"4"], deltas=[0, 3]), span=5)
    decoded = decode_batch(stamped(batch, base=98))
    assert list(decoded.offsets()) == [98, 101]
    assert decoded.header.last_offset == 102
    assert not decoded.header.is_plain
    shell = decode_batch(stamped(encode_batch(Columns([], []), span=3)))
    assert (shell.header.records, shell.header.span, list(shell.offsets())) == (0, 3, [])


def test_compression_is_kept_only_where_it_helps() -> None:
    repeated = Columns([b"%d" % n for n in range(100)], [b"the same " * 20] * 100)
    assert len(encode_batch(repeated, compress=True)) < len(encode_batch(repeated)) / 5
    assert encode_batch(Columns([b"a"], [b"x"]), compress=True) == encode_batch(Columns([b"a"], [b"x"]))


def forged(*, flags: int, records: int = 2, span: int | None = None, column: bytes = b"") -> bytes:
    """A batch of two one-byte keys and empty values with a right checksum and whatever columns."""
    body = struct.pack(f"<{records}H{records}I", *[1] * records, *[0] * records) + column + b"k" * records
    return pack_batch(
        body, flags=flags, producer_id=0, sequence=0, records=records, span=records if span is None else span
    )


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (forged(flags=2), "unknown flags"),
        (forged(flags=3), "unknown flags|method 3"),
        (forged(flags=64), "unknown flags"),
        (forged(flags=0, span=1), "2 records in 1 offsets"),
        (forged(flags=0, records=0, span=0), "0 offsets"),
        (forged(flags=0, span=BATCH_RECORDS_MAX + 1), "offsets"),
        (forged(flags=ATTRIBUTES, column=struct.pack("<2H", 1, 11)), "attribute"),
        (forged(flags=ATTRIBUTES, column=struct.pack("<2H", 1 | GROUPED, 1)), "continue"),
        (
            forged(flags=ATTRIBUTES, column=struct.pack("<2H", attribute_of(Operation.PUT, expiry=Expiry.TTL), 1)),
            "expiries is missing",
        ),
        (
            forged(
                flags=ATTRIBUTES,
                column=struct.pack("<2H", attribute_of(Operation.PUT, condition=Condition.VERSION), 1),
            ),
            "versions is missing",
        ),
        (forged(flags=DELTAS, column=struct.pack("<2I", 1, 1)), "do not rise"),
        (forged(flags=DELTAS, column=struct.pack("<2I", 0, 2)), "pass the span"),
        (forged(flags=VERSIONS | EXPIRIES, column=bytes(8)), "column"),
        (forged(flags=1), "decompressed|claims"),
    ],
)
def test_forged_batches_are_refused_with_a_reason(batch: bytes, why: str) -> None:
    with pytest.raises(BatchRefused, match=why):
        check_batch(batch)


def test_a_newer_format_is_distinguished_from_garbage() -> None:
    batch = encode_batch(Columns([b"a"], [b"1"]))
    with pytest.raises(UnknownFormat, match="version 3"):
        check_batch(batch[:4] + b"\x03" + batch[5:])


def test_the_stamp_leaves_the_producers_bytes_alone() -> None:
    batch = encode_batch(Columns([b"a"], [b"1"]), producer_id=3, sequence=4)
    stored = stamped(batch)
    assert stored[:16] == batch[:16]
    assert stored[40:] == batch[40:]
    assert len(stored) == len(batch) == read_header(stored).length > HEADER_BYTES


def _stored(columns: Columns, base: int) -> bytes:
    return stamp_batch(encode_batch(columns), base_offset=Offset(base), timestamp_ms=7, unsynced=0)


def test_a_cut_batch_ends_at_the_given_offset() -> None:
    columns = Columns([b"a", b"b", b"c"], [b"1", b"2", b"3"])
    cut = decode_batch(cut_batch(_stored(columns, 10), Offset(11)))
    assert (list(cut.columns.keys), list(cut.offsets()), cut.header.last_offset) == ([b"a", b"b"], [10, 11], 11)
    assert (cut.header.timestamp_ms, cut.header.sequence) == (7, 0)
    whole = _stored(columns, 10)
    assert decode_batch(cut_batch(whole, Offset(12))).columns == decode_batch(whole).columns


def test_a_cut_leaves_no_half_of_a_group() -> None:
    attributes = [1, 1, 1 | GROUPED, 1 | GROUPED, 1]
    columns = Columns([b"a", b"b", b"c", b"d", b"e"], [b"v"] * 5, attributes)
    for last, kept in ((0, [b"a"]), (1, [b"a"]), (2, [b"a"]), (3, [b"a", b"b", b"c", b"d"]), (4, list(columns.keys))):
        cut = decode_batch(cut_batch(_stored(columns, 0), Offset(last)))
        assert (list(cut.columns.keys), cut.header.last_offset) == (kept, last)


def test_a_cut_of_a_compacted_batch_goes_by_its_offsets() -> None:
    columns = Columns([b"a", b"b"], [b"1", b"2"], deltas=[1, 4])
    stored = stamp_batch(encode_batch(columns, span=6), base_offset=Offset(20), timestamp_ms=7, unsynced=0)
    for last, kept in ((20, []), (21, [b"a"]), (23, [b"a"]), (24, [b"a", b"b"]), (25, [b"a", b"b"])):
        cut = decode_batch(cut_batch(stored, Offset(last)))
        assert (list(cut.columns.keys), cut.header.last_offset) == (kept, last)


def test_a_sealed_batch_is_what_a_log_takes() -> None:
    """Sealing gives the bytes that encoding gives, and they pass the check of bytes from outside."""
    columns = Columns([b"a", b"b"], [b"1", b"2"], [1, attribute_of(Operation.PUT, condition=Condition.VERSION)], [0, 3])
    sealed = seal_batch(columns, producer_id=7, sequence=3)
    assert sealed == encode_batch(columns, producer_id=7, sequence=3)
    assert check_batch(sealed) == check_batch(bytes(sealed)) == read_header(sealed)
    assert span_of(sealed) == 2


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (Columns([], []), "at least one record"),
        (Columns([b"a"], [b"1"], [0x80]), "does not know"),
        (Columns([b"a"], [b"1"], [Operation.PUT | GROUPED]), "continue an atomic group"),
        (Columns([b"a"], [b"1"], [Operation.VOID]), "claims to be void"),
        (Columns([b"a"], [b"1"], [attribute_of(Operation.PUT, condition=Condition.VERSION)]), "versions is missing"),
        (Columns([b"a"], [b"1"], [attribute_of(Operation.PUT, expiry=Expiry.TTL)]), "expiries is missing"),
    ],
)
def test_what_a_log_would_refuse_is_not_sealed(columns: Columns, why: str) -> None:
    with pytest.raises(BatchRefused, match=why):
        seal_batch(columns)


def test_the_seal_does_not_outlive_the_bytes() -> None:
    """Whatever is made of a sealed batch is checked again: cut, joined, changed, or copied by way of other buffers."""
    sealed = seal_batch(Columns([b"a"], [b"1"]))
    last = bytes((sealed[-1] ^ 1,))
    for damaged in (sealed[:-1] + last, b"".join((sealed[:-1], last)), bytes(bytearray(sealed[:-1]) + last)):
        with pytest.raises(BatchRefused, match="checksum"):
            check_batch(damaged)
    assert not any(isinstance(made, SealedBatch) for made in (sealed[:], bytes(sealed), sealed + b"", sealed * 1))
