"""Open indexes and the addresses of a process: each takes what it may grow to, whether it holds one key or millions."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.concurrency.descriptors import descriptor_shares
from log_tier.model.errors import Overloaded
from log_tier.model.identifiers import PARTITIONS_MAX, PartitionId
from serving_tier.index.lmdb.environment import ENVIRONMENTS_MAX, MAP_BYTES_MAX, open_environment
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.open_environments import OpenEnvironments

ADDRESSES = 1 << 47
"""Bytes that a process on x86-64 and on 64-bit ARM can name."""


def test_all_that_may_be_open_have_addresses_whatever_the_limit_of_open_files() -> None:
    environments = OpenEnvironments(descriptor_shares(1 << 20).environments)
    assert environments.environments_max == ENVIRONMENTS_MAX
    assert 2 * PARTITIONS_MAX * MAP_BYTES_MAX <= environments.environments_max * MAP_BYTES_MAX < ADDRESSES
    assert OpenEnvironments(descriptor_shares(1024).environments).environments_max < ENVIRONMENTS_MAX


def test_without_addresses_it_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Overloaded, match=r"cannot be opened: .*addresses"):
        open_environment(tmp_path, map_bytes=ADDRESSES)


def test_without_addresses_others_are_put_to_rest(tmp_path: Path) -> None:
    """Another database of the same process may have taken them."""
    environments, log = OpenEnvironments(100), StoredLog()
    indexes = [
        LmdbIndex.open(
            tmp_path / str(number),
            partition=PartitionId(TABLE, PARTITION),
            environments=environments,
            map_bytes=3 * ADDRESSES // 8,
        )
        for number in range(3)
    ]
    records = log.append(put(b"a", b"1"))
    for index in indexes:
        index.apply(records)
    assert [index.get_value(b"a") for index in indexes] == [b"1"] * 3
    for index in indexes:
        index.close()
