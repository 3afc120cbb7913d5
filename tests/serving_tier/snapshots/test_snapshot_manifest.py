from __future__ import annotations

import json

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.storage.sealed_documents import changed_byte, check_every_flipped_bit, sealed_again

from log_tier.model.errors import SnapshotDamaged, UnknownFormat
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId, table_id_from_bytes
from serving_tier.names import INDEX_FILES
from serving_tier.snapshots.manifest import (
    MANIFEST_BYTES_MAX,
    PIECE_BYTES,
    SnapshotFile,
    SnapshotManifest,
    format_manifest,
    parse_manifest,
)

checksums = st.integers(0, 2**32 - 1)


@st.composite
def files(draw: st.DrawFn, name: str) -> SnapshotFile:
    size = draw(st.integers(0, 5 * PIECE_BYTES))
    count = -(-size // PIECE_BYTES)
    return SnapshotFile(name, size, tuple(draw(st.lists(checksums, min_size=count, max_size=count))))


manifests = st.builds(
    SnapshotManifest,
    id=st.text("0123456789abcdef", min_size=1, max_size=32),
    table=st.binary(min_size=16, max_size=16).map(table_id_from_bytes),
    table_name=st.text(max_size=20),
    partition=st.integers(0, 1023).map(Partition),
    offset=st.integers(NOTHING, 2**63 - 1).map(Offset),
    log_time_ms=st.integers(0, 2**62),
    keys=st.integers(0, 2**40),
    index_version=st.integers(0, 9),
    created_ms=st.integers(0, 2**62),
    files=st.tuples(*map(files, INDEX_FILES)),
    digest=st.sampled_from(["", "ab" * 16]),
)

ONE = SnapshotManifest(
    id="9f3c21d07b6a5e48",
    table=TableId("AAECAwQFBgcICQoLDA0ODw"),
    table_name="flights",
    partition=Partition(3),
    offset=Offset(1041),
    log_time_ms=1_700_000_000_000,
    keys=12,
    index_version=1,
    created_ms=1_700_000_000_123,
    files=(SnapshotFile("data.mdb", 32768, (0xE3069283,)), SnapshotFile("index.json", 133, (0x8A9136AA,))),
)


@given(manifests)
def test_a_manifest_comes_back(manifest: SnapshotManifest) -> None:
    assert parse_manifest(format_manifest(manifest), "here") == manifest


@given(manifests, st.data())
def test_no_changed_byte_passes(manifest: SnapshotManifest, data: st.DataObject) -> None:
    with pytest.raises((SnapshotDamaged, UnknownFormat), match="here"):
        parse_manifest(changed_byte(format_manifest(manifest), data), "here")


def test_every_flipped_bit_of_a_manifest_is_refused() -> None:
    check_every_flipped_bit(format_manifest(ONE), parse_manifest, (SnapshotDamaged, UnknownFormat))


def test_the_text_is_frozen() -> None:
    """Version 1, as docs/FORMATS.md shows it: what was written once is read for ever."""
    assert format_manifest(ONE).decode() == (
        "{\n"
        ' "format": "duramen-snapshot",\n'
        ' "version": 1,\n'
        ' "id": "9f3c21d07b6a5e48",\n'
        ' "table": "AAECAwQFBgcICQoLDA0ODw",\n'
        ' "table_name": "flights",\n'
        ' "partition": 3,\n'
        ' "offset": 1041,\n'
        ' "log_time_ms": 1700000000000,\n'
        ' "keys": 12,\n'
        ' "index_version": 1,\n'
        ' "created_ms": 1700000000123,\n'
        ' "digest": "",\n'
        ' "piece_bytes": 1048576,\n'
        ' "files": [\n'
        "  {\n"
        '   "name": "data.mdb",\n'
        '   "bytes": 32768,\n'
        '   "crc32c": "e3069283"\n'
        "  },\n"
        "  {\n"
        '   "name": "index.json",\n'
        '   "bytes": 133,\n'
        '   "crc32c": "8a9136aa"\n'
        "  }\n"
        " ],\n"
        ' "check": "9c0aa399"\n'
        "}\n"
    )


def test_the_path_names_the_place_and_sorts_by_offset() -> None:
    assert ONE.path == "AAECAwQFBgcICQoLDA0ODw/3/00000000000000001041-9f3c21d07b6a5e48"
    assert ONE.bytes == 32768 + 133
    assert str(ONE) == "snapshot 9f3c21d07b6a5e48 of flights/3 at 1041"


@pytest.mark.parametrize("sound", [True, False], ids=["with its checksum", "edited"])
def test_a_newer_version_is_refused_by_name(sound: bool) -> None:
    document = {**json.loads(format_manifest(ONE)), "version": 2, "something": "new"}
    text = sealed_again(document) if sound else json.dumps(document).encode()
    with pytest.raises(UnknownFormat, match="here has format version 2, this process reads version 1") as caught:
        parse_manifest(text, "here")
    assert ("damaged" in caught.value.message) is not sound


@pytest.mark.parametrize(
    "change",
    [
        {"partition": "3"},
        {"partition": -1},
        {"partition": True},
        {"offset": -2},
        {"table": "short"},
        {"id": "../../x"},
        {"version": 0},
        {"version": "1"},
        {"piece_bytes": 1},
        {"files": []},
        {"files": 7},
        {"files": [{"name": "../x", "bytes": 0, "crc32c": ""}, {"name": "index.json", "bytes": 0, "crc32c": ""}]},
        {"files": [{"name": "data.mdb", "bytes": 1, "crc32c": ""}, {"name": "index.json", "bytes": 0, "crc32c": ""}]},
        {"format": "something else"},
    ],
    ids=str,
)
def test_a_manifest_that_says_something_else_is_refused_though_its_checksum_holds(change: dict[str, object]) -> None:
    with pytest.raises(SnapshotDamaged, match="here"):
        parse_manifest(sealed_again({**json.loads(format_manifest(ONE)), **change}), "here")


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff\xfe", b" " * (MANIFEST_BYTES_MAX + 1)], ids=range(7)
)
def test_what_is_no_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(SnapshotDamaged, match="here"):
        parse_manifest(text, "here")


def test_a_piece_that_changed_is_named_with_both_checksums() -> None:
    file = SnapshotFile("data.mdb", 9, (google_crc32c.value(b"123456789"),))
    file.check_piece(0, b"123456789", "x/data.mdb")
    with pytest.raises(
        SnapshotDamaged, match=r"x/data\.mdb: bytes 0 to 8 have the checksum .*, the manifest says e306"
    ):
        file.check_piece(0, b"123456780", "x/data.mdb")
    with pytest.raises(SnapshotDamaged, match=r"has \d+ bytes or more, the manifest says 9"):
        file.check_piece(PIECE_BYTES, b"1", "x/data.mdb")
    with pytest.raises(SnapshotDamaged, match="has 8 bytes, the manifest says 9"):
        file.check_size(8, "x/data.mdb")
