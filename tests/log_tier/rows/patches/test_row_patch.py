"""The format of patches: what is written is read, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.avro_rows import mutated

from log_tier.rows.avro.varints import Misfit
from log_tier.rows.patches.row_patch import (
    CHANGES_MAX,
    STEPS_MAX,
    FieldChange,
    FieldOperation,
    RowPatch,
    encode_patch,
    read_patch,
)

PATCHES = Path(__file__).parents[1] / "vectors" / "patches.json"
GATE = FieldChange((4,), FieldOperation.SET, b"\x04B7")
SEATS = FieldChange((5, 1), FieldOperation.ADD, b"\x01")
CHANGES = st.builds(
    FieldChange,
    st.lists(st.integers(0, 5000), max_size=5).map(tuple),
    st.sampled_from(FieldOperation),
    st.binary(max_size=200),
)


@given(st.integers(0, (1 << 32) - 1), st.lists(CHANGES, min_size=1, max_size=5))
def test_what_is_written_is_read(schema: int, changes: list[FieldChange]) -> None:
    assert read_patch(encode_patch(schema, changes)) == RowPatch(schema, tuple(changes))


def test_patches_of_former_versions_are_read() -> None:
    """The fixture stays as it is: logs have such records."""
    for each in json.loads(PATCHES.read_text()):
        changes = [
            FieldChange(tuple(path), FieldOperation[name.upper()], bytes.fromhex(operand))
            for name, path, operand in each["changes"]
        ]
        assert read_patch(bytes.fromhex(each["value"])) == RowPatch(each["schema"], tuple(changes))
        assert encode_patch(each["schema"], changes).hex() == each["value"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "no patch"),
        (b"\0\0\0\0\1\x02\x01\x02\x08\x06\x04B7", "no patch"),
        (b"\2\0\0\0\1\x02\x01\x02\x08\x06\x04B7", "no patch"),
        (encode_patch(1, []), "changes nothing"),
        (encode_patch(1, [GATE])[:-1], "3 and|its length is 3"),
        (encode_patch(1, [GATE]) + b"\0", "goes on 1 bytes"),
        (encode_patch(1, [GATE] * (CHANGES_MAX + 1)), "names 1025 changes"),
        (encode_patch(1, [GATE._replace(path=(0,) * (STEPS_MAX + 1))]), "names 129 steps"),
        (b"\1\0\0\0\1\x02\x02\x02\x08\x06\x04B7", "the operation 2"),
        (b"\1\0\0\0\1\x02", "ends before its end"),
        (b"\1\0\0\0\1\x01", "names -1 changes"),
    ],
)
def test_what_is_no_patch_is_refused(value: bytes, why: str) -> None:
    with pytest.raises(Misfit, match=why):
        read_patch(value)


def test_hostile_bytes_are_a_patch_or_refused() -> None:
    random, good = Random(83), encode_patch(7, [GATE, SEATS])
    refused = 0
    for _ in range(10_000):
        try:
            read_patch(mutated(random, good))
        except Misfit:
            refused += 1
    assert 1000 < refused < 10_000
