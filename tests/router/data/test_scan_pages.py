"""A page of a scan over many partitions reads about a page, also where each partition begins with a large value."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from kit.cluster.one_machine import DEADLINE_S, one_machine, put_all, puts

from log_tier.model.identifiers import Offset, Partition
from log_tier.rows.table_spec import TableSpec
from log_tier.rows.tuple_key import key_range, pack_key
from router.data.requests import ScanRequest, WritePart, WriteResult
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

PARTITIONS: Final = 32
VALUE: Final = bytes(100_000)
PAGE_BYTES: Final = 250_000


@pytest.mark.parametrize("reverse", [False, True])
async def test_a_range_within_the_deciding_fields_reads_one_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reverse: bool
) -> None:
    scan = LmdbIndex.scan
    read: list[LmdbIndex] = []

    def counted(self: LmdbIndex, *args: Any, **how: Any) -> Any:
        read.append(self)
        return scan(self, *args, **how)

    monkeypatch.setattr(LmdbIndex, "scan", counted)
    async with one_machine(tmp_path) as plane:
        table = await plane.create_table(TableSpec("flights", 8, partitioner="fields:1"), timeout=DEADLINE_S)
        keys = sorted(pack_key(carrier, number) for carrier in ("AA", "B6", "DL", "UA") for number in range(40))
        await put_all(plane, table, dict.fromkeys(keys, b""))
        for bounds, count in ((key_range("UA"), 1), (key_range("UA", start=7, end=20), 1), (key_range(), 8)):
            read.clear()
            request = ScanRequest(table.id, bounds.start, bounds.end, reverse, 1000, strong=True)
            page = await plane.scan(request, timeout=DEADLINE_S)
            assert page.keys == sorted((key for key in keys if bounds.start <= key < bounds.end), reverse=reverse)
            assert len(read) == count
            assert len(page.applied) == count


@pytest.mark.parametrize("reverse", [False, True])
async def test_a_page_reads_about_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reverse: bool) -> None:
    """It read one value of each partition, for each page: with 1,024 partitions of 4 MiB values, 4 GiB."""
    scan = LmdbIndex.scan
    read: list[int] = []

    def counted(*args: Any, **how: Any) -> Any:
        page = scan(*args, **how)
        read.append(sum(len(entry.value) for _, entry in page.entries))
        return page

    monkeypatch.setattr(LmdbIndex, "scan", counted)
    async with one_machine(tmp_path) as plane:
        table = await plane.create_table(TableSpec("flights", PARTITIONS), timeout=DEADLINE_S)
        keys = []
        for number in map(Partition, range(PARTITIONS)):
            mine = [b"%03d.%02d" % (each, number * 13 % PARTITIONS) for each in range(2)]
            batch = puts(*((key, VALUE) for key in mine))
            (done,) = await plane.write([WritePart(table.partition(number), batch)], timeout=DEADLINE_S)
            assert isinstance(done, WriteResult), done
            keys += mine
        keys.sort(reverse=reverse)
        after = dict.fromkeys(map(Partition, range(PARTITIONS)), Offset(1))
        shown: list[bytes] = []
        start, end = b"", None
        while len(shown) < len(keys):
            page = await plane.scan(
                ScanRequest(table.id, start, end, reverse, 100, after=after, bytes_max=PAGE_BYTES), timeout=DEADLINE_S
            )
            shown += page.keys
            if reverse:
                end = page.keys[-1]
            else:
                start = page.keys[-1] + b"\0"
            assert page.more == (len(shown) < len(keys))
        assert shown == keys
        # The first partition's page is cut where it is full. What others have before that is about as much again each
        # time that twice as many partitions were read.
        assert sum(read) <= 6 * len(keys) * len(VALUE)
