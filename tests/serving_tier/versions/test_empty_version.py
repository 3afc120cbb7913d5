"""The version with nothing in it: made by every node for itself, and a version like any other from there on."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_tier.catalog.cluster_map import EMPTY, TableEntry
from log_tier.catalog.version_fold import empty_url
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.node.staging import fetch_version
from serving_tier.versions.empty import empty_offsets, is_empty, make_empty

TABLE = TableEntry(TableId("A" * 22), "flights", 3, 1, ((),) * 3, starts=(Offset(0), Offset(0), Offset(7)))


def test_its_place_names_an_offset_for_each_partition() -> None:
    url = empty_url([12, -1, 7], 530)
    assert url == "empty:12,-1,7/530"
    assert is_empty(url)
    assert is_empty(EMPTY)
    assert not is_empty("file:///empty:12")
    assert empty_offsets(url, 3) == [12, NOTHING, 7]


@pytest.mark.parametrize("url", ["empty:", "empty:1", "empty:1,2,x", "empty:1,2,-2", "empty:1,2,3,4", "s3://1,2,3"])
def test_other_places_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="names no offset for each of 3 partitions"):
        empty_offsets(url, 3)


@pytest.mark.parametrize(("partition", "offset"), [(0, 12), (1, NOTHING), (2, 9), (2, 6)])
async def test_every_node_makes_its_part(tmp_path: Path, partition: int, offset: int) -> None:
    offsets = [12, -1, 7]
    offsets[partition] = offset
    folder = tmp_path / "0.v2"
    (tmp_path / "0.v2.incoming").mkdir()  # of a process that died
    await fetch_version(empty_url(offsets, 1), TABLE, TABLE.partition(partition), 2, folder, lambda *_: None)
    index = LmdbIndex.open(folder, partition=TABLE.partition(partition), start=TABLE.start(Partition(partition)))
    assert (index.applied, index.count(), index.version) == (offset, 0, 2)
    index.close()
    assert [path.name for path in tmp_path.iterdir()] == ["0.v2"]


async def test_it_is_not_made_for_another_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        await make_empty("empty:1,2", TABLE, TABLE.partition(0), 2, tmp_path / "0.v2")
    assert not list(tmp_path.iterdir())
