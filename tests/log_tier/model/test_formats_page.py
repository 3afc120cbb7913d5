"""The format page is true: its worked example is the frozen batch, and its names are the code's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import google_crc32c
import pytest

from log_tier.embedded.segments.sparse_index import SparseIndex
from log_tier.embedded.storage import names
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import place_of
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.record import Condition, Operation
from log_tier.model.tokens import Token

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "FORMATS.md").read_text()


def test_the_worked_example_is_the_frozen_batch() -> None:
    (block,) = re.findall(r"```hex batch_v2_plain\n(.*?)```", PAGE, re.DOTALL)
    data = bytes.fromhex("".join(line[:44] for line in block.splitlines()))
    assert data == bytes.fromhex((Path(__file__).parent / "fixtures" / "batch_v2_plain.hex").read_text())
    batch = decode_batch(data, place_of(PartitionId(TableId("AAECAwQFBgcICQoLDA0ODw"), Partition(3))))
    assert dict(zip(batch.columns.keys, batch.columns.values, strict=True)) == {b"UA1545": b"departed", b"gate": b"B7"}
    assert list(batch.offsets()) == [42, 43]


def test_every_sealed_example_holds_its_checksum() -> None:
    sealed = [block for block in re.findall(r"```json\n(.*?)\n```", PAGE, re.DOTALL) if '"check": "' in block]
    assert len(sealed) == 4
    for block in sealed:
        document = json.loads(block)
        said = document.pop("check")
        text = json.dumps(document, indent=1 if "\n" in block else None)
        assert f"{google_crc32c.value(text.encode()):08x}" == said, document["format"]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:log_tier|tests)/[\w/.]+)`", PAGE))))
def test_every_file_it_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_names_and_numbers_are_the_codes() -> None:
    for name in (
        names.MARKER,
        names.LOCK,
        names.TOPIC_FILE,
        names.CHECKPOINT,
        names.segment_name(Offset(42)),
        names.PART,
    ):
        assert name in PAGE, name
    for field in Checkpoint.__dataclass_fields__:
        assert f"`{field}`" in PAGE
    for operation in Operation:
        assert f"{operation.value} {operation.name.lower().replace('noop', 'no-op')}" in PAGE
    assert f"{Condition.PRESENT.value} present" in PAGE
    assert SparseIndex().encode(Offset(0))[:4].decode() in PAGE
    assert str(Token())[:3] in PAGE
