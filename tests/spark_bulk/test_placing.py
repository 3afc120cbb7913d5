"""The Arrow function places every key where the router looks for it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.partitioners import PARTITIONERS

from log_tier.model.errors import InvalidKey
from log_tier.model.partitioner import Partitioner, partition_of
from spark_bulk.runtime.placing import partition_ids

VECTORS = Path(__file__).parent.parent / "log_tier" / "model" / "vectors"
SHARED = {
    name: json.loads((VECTORS / file).read_text())["vectors"]
    for name, file in (("slot", "slots.json"), ("murmur2", "murmur2.json"))
}

# Enough of one length that they are hashed together, and a few of each that are not.
MANY = 300


@pytest.mark.parametrize("partitions", [1, 3, 8, 1024])
@pytest.mark.parametrize("times", [1, MANY])
def test_keys_of_fields_are_placed_by_the_shared_vectors(partitions: int, times: int) -> None:
    vectors = json.loads((VECTORS / "fields.json").read_text())["vectors"]
    keys = [bytes.fromhex(vector["key_hex"]) for vector in vectors] * times
    for count in (1, 2):
        expected = [vector[f"partition_of_{partitions}_by_{count}"] for vector in vectors] * times
        assert partition_ids(pa.array(keys, pa.binary()), partitions, f"fields:{count}").to_pylist() == expected


@pytest.mark.parametrize("partitioner", ["slot", "murmur2"])
@pytest.mark.parametrize("partitions", [1, 3, 8, 1024])
@pytest.mark.parametrize("times", [1, MANY])
def test_the_shared_vectors_hold(partitioner: Partitioner, partitions: int, times: int) -> None:
    vectors = SHARED[partitioner]
    keys = [bytes.fromhex(vector["key_hex"]) for vector in vectors] * times
    expected = [vector[f"partition_of_{partitions}"] for vector in vectors] * times
    assert partition_ids(pa.array(keys, pa.binary()), partitions, partitioner).to_pylist() == expected


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 7, 8, 17, 64, 511])
def test_keys_of_one_length_are_placed_as_the_router_does(partitioner: Partitioner, length: int) -> None:
    source = random.Random(length)
    keys = [source.randbytes(length) for _ in range(MANY)]
    for partitions in (1, 7, 1024):
        assert partition_ids(pa.array(keys, pa.binary()), partitions, partitioner).to_pylist() == [
            partition_of(key, partitions, partitioner) for key in keys
        ]


@given(
    st.lists(st.binary(max_size=12) | st.text(alphabet="{}ab", max_size=6).map(str.encode), max_size=60),
    st.integers(1, 1024),
    st.sampled_from(PARTITIONERS),
    st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]),
    st.integers(0, 5),
)
def test_any_keys_in_any_slice(
    keys: list[bytes], partitions: int, partitioner: Partitioner, kind: pa.DataType, skip: int
) -> None:
    keys = keys * 40  # so that some lengths are many
    placed = partition_ids(pa.array(keys, kind)[skip:], partitions, partitioner)
    assert placed.type == pa.int32()
    assert placed.to_pylist() == [partition_of(key, partitions, partitioner) for key in keys[skip:]]


def test_more_keys_than_one_block() -> None:
    keys = [b"key%d" % number if number % 1000 else b"{tag%d}x" % number for number in range(40_000)]
    assert partition_ids(pa.array(keys, pa.binary()), 8).to_pylist() == [partition_of(key, 8) for key in keys]


def test_text_is_its_utf8_bytes() -> None:
    keys = ["LH400", "zażółć", "{tag}é"]
    expected = [partition_of(key.encode(), 8) for key in keys]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert partition_ids(pa.array(keys, kind), 8).to_pylist() == expected


def test_bytes_of_a_fixed_size() -> None:
    keys = [b"aaaa", b"bbbb", b"{xx}"]
    assert partition_ids(pa.array(keys, pa.binary(4)), 8).to_pylist() == [partition_of(key, 8) for key in keys]


def test_a_chunked_column_and_an_empty_one() -> None:
    chunked = pa.chunked_array([[b"a", b"b"], [], [b"c"]], pa.binary())
    assert partition_ids(chunked, 8).to_pylist() == [partition_of(key, 8) for key in (b"a", b"b", b"c")]
    assert partition_ids(pa.array([], pa.binary()), 8).to_pylist() == []


def test_a_null_key_is_named_by_its_row() -> None:
    with pytest.raises(InvalidKey, match="the key of row 2 is null"):
        partition_ids(pa.array([b"a", b"b", None, None]), 8)


def test_keys_of_another_type_are_refused() -> None:
    with pytest.raises(InvalidKey, match="keys are bytes or text, this column is of type int64"):
        partition_ids(pa.array([1, 2]), 8)
