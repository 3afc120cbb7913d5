from __future__ import annotations

import json
from dataclasses import replace

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.partitioners import PARTITIONERS
from kit.storage.sealed_documents import changed_byte, check_every_flipped_bit, sealed_again

from log_tier.model.errors import SnapshotDamaged, UnknownFormat
from log_tier.model.identifiers import Offset, Partition, TableId, table_id_from_bytes
from serving_tier.snapshots.manifest import SnapshotFile, SnapshotManifest, format_manifest
from serving_tier.versions.manifest import (
    VERSION_BYTES_MAX,
    VersionManifest,
    VersionPart,
    format_version,
    parse_version,
    part_of,
)

TABLE = TableId("AAECAwQFBgcICQoLDA0ODw")


@st.composite
def versions(draw: st.DrawFn) -> VersionManifest:
    table = draw(st.binary(min_size=16, max_size=16).map(table_id_from_bytes))
    partitions = draw(st.integers(1, 6))
    numbers = st.integers(0, 2**62)
    parts = []
    for partition in range(partitions):
        offset = draw(st.integers(0, 2**63 - 1))
        made = draw(st.text("0123456789abcdef", min_size=1, max_size=32))
        path = f"{table}/{partition}/{offset:020d}-{made}"
        check = draw(st.integers(0, 2**32 - 1))
        parts.append(VersionPart(path, Offset(offset), draw(numbers), draw(numbers), draw(numbers), check))
    return VersionManifest(
        id=draw(st.text("0123456789abcdef", min_size=1, max_size=32)),
        table=table,
        table_name=draw(st.text(max_size=20)),
        partitions=partitions,
        partitioner=draw(st.sampled_from(PARTITIONERS)),
        created_ms=draw(numbers),
        source=draw(st.text(max_size=40)),
        parts=tuple(parts),
    )


ONE = VersionManifest(
    id="51c0ffee51c0ffee",
    table=TABLE,
    table_name="flights",
    partitions=2,
    partitioner="slot",
    created_ms=1_700_000_000_123,
    source="a data frame",
    parts=(
        VersionPart(
            f"{TABLE}/0/00000000000000001041-9f3c21d07b6a5e48", Offset(1041), 1_700_000_000_000, 12, 32901, 0xE3069283
        ),
        VersionPart(f"{TABLE}/1/00000000000000000000-0a1b2c3d4e5f6071", Offset(0), 0, 0, 8325, 0x8A9136AA),
    ),
)


@given(versions())
def test_a_version_comes_back(version: VersionManifest) -> None:
    assert parse_version(format_version(version), "here") == version
    assert version.keys == sum(part.keys for part in version.parts)
    assert version.bytes == sum(part.bytes for part in version.parts)


@given(versions(), st.data())
def test_no_changed_byte_passes(version: VersionManifest, data: st.DataObject) -> None:
    with pytest.raises((SnapshotDamaged, UnknownFormat), match="here"):
        parse_version(changed_byte(format_version(version), data), "here")


def test_every_flipped_bit_is_refused() -> None:
    check_every_flipped_bit(format_version(ONE), parse_version, (SnapshotDamaged, UnknownFormat))


def test_the_text_of_a_version_is_frozen() -> None:
    """Version 1, as docs/FORMATS.md shows it: what was written once is read for ever."""
    assert format_version(ONE).decode() == (
        "{\n"
        ' "format": "duramen-version",\n'
        ' "version": 1,\n'
        ' "id": "51c0ffee51c0ffee",\n'
        ' "table": "AAECAwQFBgcICQoLDA0ODw",\n'
        ' "table_name": "flights",\n'
        ' "partitions": 2,\n'
        ' "partitioner": "slot",\n'
        ' "created_ms": 1700000000123,\n'
        ' "source": "a data frame",\n'
        ' "parts": [\n'
        "  {\n"
        '   "path": "AAECAwQFBgcICQoLDA0ODw/0/00000000000000001041-9f3c21d07b6a5e48",\n'
        '   "offset": 1041,\n'
        '   "log_time_ms": 1700000000000,\n'
        '   "keys": 12,\n'
        '   "bytes": 32901,\n'
        '   "check": "e3069283"\n'
        "  },\n"
        "  {\n"
        '   "path": "AAECAwQFBgcICQoLDA0ODw/1/00000000000000000000-0a1b2c3d4e5f6071",\n'
        '   "offset": 0,\n'
        '   "log_time_ms": 0,\n'
        '   "keys": 0,\n'
        '   "bytes": 8325,\n'
        '   "check": "8a9136aa"\n'
        "  }\n"
        " ],\n"
        ' "check": "939efd47"\n'
        "}\n"
    )


def test_a_part_vouches_for_its_snapshot() -> None:
    manifest = SnapshotManifest(
        id="9f3c21d07b6a5e48",
        table=TABLE,
        table_name="flights",
        partition=Partition(0),
        offset=Offset(1041),
        log_time_ms=1_700_000_000_000,
        keys=12,
        index_version=1,
        created_ms=1_700_000_000_123,
        files=(SnapshotFile("data.mdb", 32768, (0xE3069283,)), SnapshotFile("index.json", 133, (0x8A9136AA,))),
    )
    part = part_of(manifest)
    assert part == replace(ONE.parts[0], check=google_crc32c.value(format_manifest(manifest)))
    assert part_of(replace(manifest, created_ms=5)).check != part.check


@pytest.mark.parametrize("sound", [True, False], ids=["with its checksum", "edited"])
def test_a_newer_format_is_refused_by_name(sound: bool) -> None:
    document = {**json.loads(format_version(ONE)), "version": 2, "something": "new"}
    text = sealed_again(document) if sound else json.dumps(document).encode()
    with pytest.raises(UnknownFormat, match="here has format version 2, this process reads version 1") as caught:
        parse_version(text, "here")
    assert ("damaged" in caught.value.message) is not sound


def part_with(**change: object) -> dict[str, object]:
    """The first part changed."""
    document = json.loads(format_version(ONE))
    return {"parts": [{**document["parts"][0], **change}, document["parts"][1]]}


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": "2"},
        {"partitions": 3},
        {"partitions": 0, "parts": []},
        {"partitions": True},
        {"table": "short"},
        {"id": "../../x"},
        {"version": 0},
        {"partitioner": "hash"},
        {"partitioner": None},
        {"parts": 7},
        {"parts": [7, 8]},
        {"source": 7},
        {"format": "duramen-snapshot"},
        part_with(offset=-1),
        part_with(offset=1042),
        part_with(keys="12"),
        part_with(keys=True),
        part_with(bytes=-1),
        part_with(check="E3069283"),
        part_with(check="zz"),
        part_with(check=7),
        part_with(path=f"{TABLE}/1/00000000000000001041-9f3c21d07b6a5e48"),
        part_with(path=f"{TABLE}/0/00000000000000001041-9f3c21d07b6a5e48/../x"),
        part_with(path="../../etc"),
        part_with(path=7),
    ],
    ids=str,
)
def test_a_version_that_says_something_else_is_refused_though_its_checksum_holds(change: dict[str, object]) -> None:
    with pytest.raises(SnapshotDamaged, match="here"):
        parse_version(sealed_again({**json.loads(format_version(ONE)), **change}), "here")


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff\xfe", b" " * (VERSION_BYTES_MAX + 1)], ids=range(7)
)
def test_what_is_no_version_is_refused(text: bytes) -> None:
    with pytest.raises(SnapshotDamaged, match="here"):
        parse_version(text, "here")


def test_the_largest_version_fits() -> None:
    partitions = 1024
    parts = tuple(
        VersionPart(f"{TABLE}/{number}/{2**63 - 1:020d}-{'f' * 16}", Offset(2**63 - 1), 2**62, 2**62, 2**62, 2**32 - 1)
        for number in range(partitions)
    )
    text = format_version(replace(ONE, partitions=partitions, parts=parts))
    assert len(text) < VERSION_BYTES_MAX / 2
