from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.storage.sealed_documents import check_every_flipped_bit, sealed_again

from log_tier.model.errors import Damaged, UnknownFormat
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId, table_id_from_bytes
from log_tier.model.tokens import Token
from spark_bulk.export.manifest import EXPORT_BYTES_MAX, ExportFile, ExportManifest, format_export, parse_export

NUMBERS = st.integers(0, 2**62)
CHECKSUMS = st.integers(0, 2**64 - 1)
OFFSETS = st.integers(NOTHING, 2**62).map(Offset)


@st.composite
def exports(draw: st.DrawFn) -> ExportManifest:
    partitions = draw(st.integers(1, 5))
    files = []
    for number in range(partitions):
        sizes = draw(st.none() | st.tuples(NUMBERS, NUMBERS))
        if sizes is not None:
            name = draw(st.text("0123456789abcdef", min_size=1, max_size=8))
            files.append(ExportFile(f"partition={number}/{name}.parquet", Partition(number), *sizes))
    return ExportManifest(
        id=draw(st.text("0123456789abcdef", min_size=1, max_size=16)),
        number=draw(NUMBERS),
        kind=draw(st.sampled_from(["table", "changes"])),
        table=draw(st.binary(min_size=16, max_size=16).map(table_id_from_bytes)),
        table_name=draw(st.text(max_size=20)),
        partitions=partitions,
        after=tuple(draw(OFFSETS) for _ in range(partitions)),
        until=tuple(draw(OFFSETS) for _ in range(partitions)),
        created_ms=draw(NUMBERS),
        columns=draw(st.text(max_size=40)),
        files=tuple(files),
        checksums=draw(st.none() | st.lists(CHECKSUMS, min_size=partitions, max_size=partitions).map(tuple)),
    )


ONE = ExportManifest(
    id="9f3c21d07b6a5e48",
    number=7,
    kind="changes",
    table=TableId("AAECAwQFBgcICQoLDA0ODw"),
    table_name="flights",
    partitions=2,
    after=(Offset(41), NOTHING),
    until=(Offset(50), NOTHING),
    created_ms=1_700_000_000_123,
    columns="offset BIGINT, key BINARY",
    files=(ExportFile("partition=0/0a1b2c3d.parquet", Partition(0), 9, 1234),),
)


@given(exports())
def test_an_export_comes_back(export: ExportManifest) -> None:
    assert parse_export(format_export(export), "here") == export
    assert Token.parse(export.token).tables == {export.table: dict(enumerate(export.until))}
    assert export.rows == sum(file.rows for file in export.files)


def test_every_flipped_bit_of_an_export_is_refused() -> None:
    check_every_flipped_bit(format_export(ONE), parse_export, (Damaged, UnknownFormat))


def test_the_text_of_an_export_is_frozen() -> None:
    """Version 1, as it was before there were checksums: what was written once is read for ever."""
    assert format_export(ONE).decode() == (
        "{\n"
        ' "format": "duramen-export",\n'
        ' "version": 1,\n'
        ' "id": "9f3c21d07b6a5e48",\n'
        ' "number": 7,\n'
        ' "kind": "changes",\n'
        ' "table": "AAECAwQFBgcICQoLDA0ODw",\n'
        ' "table_name": "flights",\n'
        ' "partitions": 2,\n'
        f' "token": "{ONE.token}",\n'
        ' "after": [\n  41,\n  -1\n ],\n'
        ' "until": [\n  50,\n  -1\n ],\n'
        ' "created_ms": 1700000000123,\n'
        ' "columns": "offset BIGINT, key BINARY",\n'
        ' "rows": 9,\n'
        ' "files": [\n'
        "  {\n"
        '   "path": "partition=0/0a1b2c3d.parquet",\n'
        '   "partition": 0,\n'
        '   "rows": 9,\n'
        '   "bytes": 1234\n'
        "  }\n"
        " ],\n"
        ' "check": "ebc41bd0"\n'
        "}\n"
    )
    assert ONE.folder == "000007-9f3c21d07b6a5e48"


def test_the_checksums_come_last_and_have_sixteen_digits() -> None:
    text = format_export(replace(ONE, checksums=(2**64 - 1, 0))).decode()
    assert text.endswith(
        '   "bytes": 1234\n'
        "  }\n"
        " ],\n"
        ' "checksums": [\n  "ffffffffffffffff",\n  "0000000000000000"\n ],\n'
        ' "check": "dd4d7ae2"\n'
        "}\n"
    )


@pytest.mark.parametrize("sound", [True, False], ids=["with its checksum", "edited"])
def test_a_newer_export_is_refused_by_name(sound: bool) -> None:
    document = {**json.loads(format_export(ONE)), "version": 2, "something": "new"}
    text = sealed_again(document) if sound else json.dumps(document).encode()
    with pytest.raises(UnknownFormat, match="here has format version 2, this process reads version 1") as caught:
        parse_export(text, "here")
    assert ("damaged" in caught.value.message) is not sound


def file_with(**change: object) -> dict[str, object]:
    document = json.loads(format_export(ONE))
    return {"files": [{**document["files"][0], **change}]}


@pytest.mark.parametrize(
    "change",
    [
        {"number": -1},
        {"kind": "all"},
        {"partitions": 3},
        {"partitions": True},
        {"table": "short"},
        {"id": "../x"},
        {"after": [0]},
        {"until": [50, -2]},
        {"until": [50, "x"]},
        {"until": 7},
        {"token": str(Token())},
        {"rows": 10},
        {"columns": None},
        {"files": 7},
        {"version": 0},
        {"format": "duramen-version"},
        {"checksums": 7},
        {"checksums": ["00000000000000ff"]},
        {"checksums": ["00000000000000ff", 7]},
        {"checksums": ["00000000000000ff", "ff"]},
        {"checksums": ["00000000000000ff", "00000000000000FF"]},
        file_with(path="partition=1/0a.parquet"),
        file_with(path="partition=0/../x"),
        file_with(path=7),
        file_with(partition=2),
        file_with(rows=True),
        file_with(bytes=-1),
    ],
    ids=str,
)
def test_an_export_that_says_something_else_is_refused_though_its_checksum_holds(change: dict[str, object]) -> None:
    with pytest.raises(Damaged, match="here"):
        parse_export(sealed_again({**json.loads(format_export(ONE)), **change}), "here")


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff\xfe", b" " * (EXPORT_BYTES_MAX + 1)], ids=range(7)
)
def test_what_is_no_export_is_refused(text: bytes) -> None:
    with pytest.raises(Damaged, match="here"):
        parse_export(text, "here")


def test_the_largest_export_fits() -> None:
    count = 1024
    files = tuple(
        ExportFile(f"partition={number}/{'f' * 8}.parquet", Partition(number), 2**62, 2**62) for number in range(count)
    )
    offsets = (Offset(2**62),) * count
    largest = replace(ONE, partitions=count, after=offsets, until=offsets, files=files, checksums=(0,) * count)
    text = format_export(largest)
    assert len(text) < EXPORT_BYTES_MAX / 2
