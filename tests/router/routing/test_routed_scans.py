"""Scans over partitions that lie on several nodes, against a sorted dict."""

from __future__ import annotations

import asyncio

import pytest
from kit.cluster.in_process import DEADLINE_S, TestCluster, written
from kit.cluster.one_machine import held, puts
from kit.deadlines import patience_s, within

from log_tier.model.errors import LimitExceeded, ReplicaBehind, TableNotFound
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.partitioner import partition_of
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from log_tier.rows.tuple_key import key_range, pack_key
from router.data.requests import ScanRequest, ScanResult, WritePart

PAIRS = {b"k%04d" % number: b"v%d" % number for number in range(700)}


async def fill(cluster: TestCluster, table: TableRef, pairs: dict[bytes, bytes] = PAIRS) -> dict[Partition, Offset]:
    groups: dict[Partition, list[tuple[bytes, bytes]]] = {}
    for key, value in pairs.items():
        groups.setdefault(partition_of(key, table.partitions), []).append((key, value))
    last: dict[Partition, Offset] = {}
    for partition, group in groups.items():
        result = await written(cluster.router, WritePart(PartitionId(table.id, partition), puts(*group)))
        last[partition] = Offset(result.base_offset + len(group) - 1)
    return last


async def pages(
    cluster: TestCluster, table: TableRef, limit: int, *, reverse: bool, after: dict[Partition, Offset]
) -> list[ScanResult]:
    found: list[ScanResult] = []
    start, end = b"", None
    while True:
        request = ScanRequest(table.id, start, end, reverse, limit, after)
        page = await cluster.router.scan(request, timeout=DEADLINE_S)
        found.append(page)
        if not page.more:
            return found
        if reverse:
            end = page.keys[-1]
        else:
            start = page.keys[-1] + b"\x00"


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [7, 100, 1000])
@pytest.mark.parametrize("kind", ["table", "spread"])
async def test_all_pages_together_are_the_table(
    cluster: TestCluster, request: pytest.FixtureRequest, kind: str, limit: int, reverse: bool
) -> None:
    table: TableRef = await made(cluster, kind)
    after = await fill(cluster, table)
    found = await pages(cluster, table, limit, reverse=reverse, after=after)
    pairs = [pair for page in found for pair in zip(page.keys, page.values, strict=True)]
    assert pairs == sorted(PAIRS.items(), reverse=reverse)
    for page in found:
        assert 0 < len(page.keys) <= limit
        assert page.applied == after
        assert len(page.versions) == len(page.keys)


async def test_a_range_within_the_deciding_fields_asks_for_one_partition(cluster: TestCluster) -> None:
    spec = TableSpec("flights", 7, 1, partitioner="fields:1")
    table = await cluster.router.create_table(spec, timeout=DEADLINE_S)
    await cluster.hosted(table)
    keys = sorted(pack_key(carrier, number) for carrier in ("AA", "B6", "DL", "UA") for number in range(30))
    after: dict[Partition, Offset] = {}
    for key in keys:
        part = WritePart(table.partition(table.partition_of(key)), puts((key, b"")))
        after[part.partition.partition] = (await written(cluster.router, part)).base_offset
    for bounds in (key_range("UA"), key_range("UA", start=5, end=25)):
        place = partition_of(pack_key("UA"), 7)
        page = await cluster.router.scan(ScanRequest(table.id, *bounds, after=after), timeout=DEADLINE_S)
        assert page.keys == [key for key in keys if bounds.start <= key < bounds.end]
        assert page.applied == {place: after[place]}
        # And pages go on there.
        first = await cluster.router.scan(ScanRequest(table.id, *bounds, limit=4, after=after), timeout=DEADLINE_S)
        rest = ScanRequest(table.id, first.keys[-1] + b"\0", bounds.end, after=after)
        second = await cluster.router.scan(rest, timeout=DEADLINE_S)
        assert [*first.keys, *second.keys] == page.keys
        assert second.applied.keys() == {place}
    whole = await cluster.router.scan(ScanRequest(table.id, *key_range(), after=after), timeout=DEADLINE_S)
    assert (whole.keys, len(whole.applied)) == (keys, 7)


async def made(cluster: TestCluster, kind: str) -> TableRef:
    replicas, partitions = (1, 7) if kind == "spread" else (3, 4)
    table = await cluster.router.create_table(TableSpec(kind, partitions, replicas), timeout=DEADLINE_S)
    await cluster.hosted(table)
    return table


async def test_only_some_partitions(cluster: TestCluster, spread: TableRef) -> None:
    after = await fill(cluster, spread)
    wanted = [Partition(2), Partition(5)]
    page = await cluster.router.scan(
        ScanRequest(spread.id, limit=1000, after=after, partitions=wanted), timeout=DEADLINE_S
    )
    assert list(page.keys) == sorted(key for key in PAIRS if partition_of(key, 7) in wanted)
    assert sorted(page.applied) == wanted
    assert not page.more


async def test_pages_go_on_when_a_node_ends(cluster: TestCluster, table: TableRef) -> None:
    after = await fill(cluster, table)
    first = await cluster.router.scan(ScanRequest(table.id, limit=100, after=after), timeout=DEADLINE_S)
    seen = list(first.keys)
    for number, node in enumerate(("n1", "n2")):
        await cluster.nodes[node].stop()
        page = await cluster.router.scan(
            ScanRequest(table.id, start=seen[-1] + b"\x00", limit=100, after=first.applied), timeout=DEADLINE_S
        )
        assert all(page.applied[partition] >= offset for partition, offset in first.applied.items())
        seen.extend(page.keys)
        assert seen == sorted(PAIRS)[: 100 * (number + 2)]


async def test_a_scan_of_a_silent_node_goes_elsewhere(cluster: TestCluster, table: TableRef) -> None:
    after = await fill(cluster, table)
    asked = cluster.nodes["n3"].gated.asked

    async def scans() -> None:
        found = await asyncio.gather(
            *(
                cluster.router.scan(ScanRequest(table.id, limit=1000, after=after), timeout=DEADLINE_S)
                for _ in range(12)
            )
        )
        assert all(list(page.keys) == sorted(PAIRS) for page in found)

    async with within(DEADLINE_S):
        while "scan" not in asked:  # it is known to have applied everything, and is drawn now and then
            await scans()
        cluster.nodes["n3"].gate.shut()
        asked.clear()
        while "scan" not in asked:
            await scans()


async def test_errors(cluster: TestCluster, table: TableRef) -> None:
    with pytest.raises(LimitExceeded):
        await cluster.router.scan(ScanRequest(table.id, limit=0), timeout=DEADLINE_S)
    with pytest.raises(TableNotFound):
        await cluster.router.scan(ScanRequest(TableId("BBBBBBBBBBBBBBBBBBBBBB")), timeout=DEADLINE_S)
    with held(*cluster.replicas(table, 0)):
        place = await written(cluster.router, WritePart(PartitionId(table.id, Partition(0)), puts((b"k", b"v"))))
        after = {Partition(0): place.base_offset}
        with pytest.raises(ReplicaBehind):
            await cluster.router.scan(ScanRequest(table.id, after=after), timeout=patience_s(1.0))
    page = await cluster.router.scan(ScanRequest(table.id, strong=True), timeout=DEADLINE_S)
    assert list(page.keys) == [b"k"]


async def test_a_scan_over_two_tables_of_one_cluster(cluster: TestCluster, table: TableRef, spread: TableRef) -> None:
    await fill(cluster, table, {b"a": b"1"})
    await fill(cluster, spread, {b"b": b"2"})
    for topic, key in ((table, b"a"), (spread, b"b")):
        page = await cluster.router.scan(ScanRequest(topic.id, strong=True), timeout=DEADLINE_S)
        assert list(page.keys) == [key]
