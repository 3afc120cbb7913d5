"""Reads that meet a file which came to rest while they began."""

from __future__ import annotations

from pathlib import Path

from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.identifiers import PartitionId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.open_environments import OpenEnvironments


def test_a_read_that_has_the_handle_of_a_file_that_is_closed_now(tmp_path: Path) -> None:
    """A read evaluates which function begins its transaction, then in which database. In between the file may come to
    rest, and LMDB knows the handles of one environment in no other.
    """
    place, environments = PartitionId(TABLE, PARTITION), OpenEnvironments(2)
    index = LmdbIndex.open(tmp_path, partition=place, environments=environments)
    index.apply(StoredLog().append(put(b"a", b"1")))
    index.watch_use()  # the next read opens the file first, if it is closed by then
    begin, handle = index._begin, index._data
    assert index.rest()
    assert begin(handle).get(b"a").endswith(b"1")
    index.watch_use()
    begin, handle = index._begin, index._data
    assert begin(handle).get(b"a").endswith(b"1"), "it was not closed in between"
    index.close()
