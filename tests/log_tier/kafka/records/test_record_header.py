"""The header of a record in Kafka: what is packed is read, foreign headers are recognised, the bytes are fixed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.kafka.records.header import (
    HEADER_BYTES,
    HEADER_NAME,
    PLAIN_SET,
    pack_header,
    pack_plain_headers,
    read_header,
)
from log_tier.model.errors import UnknownFormat
from log_tier.model.record import Condition, Operation, attribute_of

PAGE = (Path(__file__).parents[4] / "docs" / "FORMATS.md").read_text()

_U16, _U32, _U64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))
_I64 = st.none() | st.integers(-(2**63), 2**63 - 1)


@given(_U16, _U32, _U32, _U64, _U64, st.booleans(), st.booleans(), _I64, _I64)
def test_what_is_packed_is_read(
    attribute: int,
    before: int,
    after: int,
    producer: int,
    sequence: int,
    plain: bool,
    group: bool,
    version: int | None,
    expiry: int | None,
) -> None:
    packed = pack_header(
        attribute,
        before,
        after,
        producer,
        sequence,
        plain_set=plain,
        open_group=group,
        version=version,
        expiry=expiry,
    )
    header = read_header(packed)
    assert header is not None
    assert header[1:6] == (attribute, before, after, producer, sequence)
    assert (header.version, header.expiry) == (version or 0, expiry or 0)
    assert bool(header.flags & PLAIN_SET) == plain
    assert len(packed) == HEADER_BYTES + 8 * ((version is not None) + (expiry is not None))


@given(st.integers(0, 50), _U64.map(lambda n: n >> 1), _U64.map(lambda n: n >> 1))
def test_the_headers_of_a_plain_set_are_those_of_its_records(count: int, producer: int, sequence: int) -> None:
    assert list(pack_plain_headers(count, producer, sequence)) == [
        pack_header(1, at, count - 1 - at, producer, sequence + at, plain_set=True) for at in range(count)
    ]


def test_the_bytes_are_those_of_the_format_page() -> None:
    attribute = attribute_of(Operation.PUT, condition=Condition.VERSION)
    packed = pack_header(attribute, 1, 2, 7, 41, version=1041)
    (line,) = [line for line in PAGE.splitlines() if line.startswith("    01 02  01 03")]
    assert bytes.fromhex(line) == packed
    assert f"`{HEADER_NAME}`" in PAGE


@pytest.mark.parametrize("data", [b"", b"x", b"\x00" * 28, b"\x01\x02" + bytes(26), bytes(300), b"a" * 28])
def test_bytes_that_are_none_of_ours(data: bytes) -> None:
    assert read_header(data) is None


def test_a_later_version_is_not_skipped() -> None:
    with pytest.raises(UnknownFormat, match="version 3"):
        read_header(b"\x03" + bytes(40))


def test_a_patch_has_a_version_that_stops_those_that_do_not_know_it() -> None:
    """Version 1 makes an operation that it does not have void: then replicas of two versions would part."""
    patch, put = (pack_header(int(each), 0, 0, 7, 41) for each in (Operation.PATCH, Operation.PUT))
    assert (patch[0], put[0]) == (2, 1)
    known = [read_header(each) for each in (patch, b"\1" + patch[1:], b"\2" + put[1:], put)]
    assert [header is not None and header.is_known for header in known] == [True, False, False, True]
