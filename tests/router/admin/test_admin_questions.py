"""What an operator sees of a real cluster: over gRPC, at any of its servers."""

from __future__ import annotations

import asyncio

import pytest
from kit.cluster.operated import DEADLINE_S, Operated

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import ConditionFailed, InvalidKey, InvalidRequest, TableNotFound
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.log import Bounds
from log_tier.model.partitioner import partition_of
from router.admin.answers.key_history import last_writes
from router.admin.client import AdminConnection
from router.admin.verbs import TakeSnapshots


async def test_nodes_partitions_lag_and_snapshots(cluster: Operated) -> None:
    flights = await cluster.database.create_table("flights", partitions=3, replicas=2)
    await flights.put_many({b"k%d" % number: b"v" for number in range(100)})
    await cluster.until_level("flights")
    nodes = await cluster.admin.nodes()
    assert [(each.node, each.state, each.replicas, each.ready) for each in nodes] == [
        ("n1", "alive", 2, 2),
        ("n2", "alive", 2, 2),
        ("n3", "alive", 2, 2),
    ]
    assert all(each.disk_free > 0 and abs(each.clock_skew_ms) < 5000 for each in nodes)
    partitions = await cluster.admin.partitions("flights")
    assert [(each.partition, each.ready, each.wanted, each.HasField("snapshot")) for each in partitions] == [
        (0, 2, 2, False),
        (1, 2, 2, False),
        (2, 2, 2, False),
    ]
    assert sum(each.latest + 1 for each in partitions) == 100
    lag = await cluster.admin.lag()
    assert len(lag) == 6
    assert {(each.lag_records, each.state) for each in lag} == {(0, "ready")}
    assert await cluster.admin.snapshots() == []
    await cluster.done(TakeSnapshots("flights"))
    taken = await cluster.admin.snapshots("flights")
    assert [(each.table, each.partition, each.offset, each.behind_records) for each in taken] == [
        ("flights", each.partition, each.latest, 0) for each in partitions
    ]
    assert all(each.usable for each in taken)

    await cluster.stop_node("n2")
    lost = {each.node: each for each in await cluster.admin.nodes()}["n2"]
    assert (lost.state, lost.ready, lost.replicas) == ("lost", 0, 2)
    assert lost.reason
    assert sorted(each.ready for each in await cluster.admin.partitions("flights")) == [1, 1, 2]
    with pytest.raises(TableNotFound, match="the tables are: flights"):
        await cluster.admin.partitions("nope")


async def test_every_server_answers(cluster: Operated) -> None:
    await cluster.database.create_table("flights", partitions=1, replicas=3)
    await cluster.until_level("flights")
    seen = await cluster.admin.partitions()
    for node in cluster.nodes.values():
        async with AdminConnection(f"127.0.0.1:{node.port}", timeout=DEADLINE_S) as admin:
            assert [each.state for each in await admin.nodes()] == ["alive"] * 3
            (mine,) = await admin.partitions()
            assert [each.node for each in mine.replicas] == [each.node for each in seen[0].replicas]
            assert (await admin.explain("flights", b"k")).replicas[0].present is False


async def test_the_story_of_a_key(cluster: Operated) -> None:
    flights = await cluster.database.create_table("flights", partitions=4, replicas=3)
    key = b"\xff{x}"
    await flights.put(key, b"v" * 300)
    with pytest.raises(ConditionFailed):
        await flights.put(key, b"w", if_absent=True)
    await flights.update(b"n{x}", add=1)
    await flights.delete(key)
    await flights.put(key, b"again", ttl=3600)
    await cluster.until_level("flights")
    found = await cluster.admin.explain("flights", key)
    assert (found.table, found.key, found.partition) == ("flights", "base64:/3t4fQ==", partition_of(key, 4))
    assert (found.earliest, found.latest, found.searched_from) == (0, 4, 0)
    assert len(found.replicas) == 3
    for replica in found.replicas:
        assert (replica.applied, replica.version, replica.value, replica.error) == (4, 4, "again", "")
        assert replica.expires_at_ms > 0
    listed = [(each.offset, each.operation, each.condition, each.verdict) for each in found.writes]
    assert listed == [
        (4, "put", "none", "accepted"),
        (3, "delete", "none", "accepted"),
        (1, "put", "absent", "void: the condition did not hold: the key has version 0"),
        (0, "put", "none", "accepted"),
    ]
    assert (found.writes[3].value, found.writes[3].value_bytes) == ("v" * 200, 300)
    assert found.writes[0].expiry == "ttl 3600000 ms"
    assert [each.offset for each in (await cluster.admin.explain("flights", key, writes=2)).writes] == [4, 3]

    await cluster.stop_node("n1")
    replicas = {each.node: each for each in (await cluster.admin.explain("flights", key)).replicas}
    assert (replicas["n1"].state, replicas["n1"].HasField("value")) == ("lost", False)
    assert "n1 is not there" in replicas["n1"].error
    assert replicas["n2"].value == "again"
    with pytest.raises(InvalidKey):
        await cluster.admin.explain("flights", b"")
    with pytest.raises(InvalidRequest):
        await cluster.admin.explain("flights", key, writes=5000)


async def test_a_key_that_is_placed_by_murmur2(cluster: Operated) -> None:
    flights = await cluster.database.create_table("flights", partitions=7, replicas=1, partitioner="murmur2")
    keys = [b"k%d" % number for number in range(20)]
    await flights.put_many((key, key) for key in keys)
    await cluster.until_level("flights")
    assert any(partition_of(key, 7) != partition_of(key, 7, "murmur2") for key in keys)
    for key in keys:
        found = await cluster.admin.explain("flights", key)
        assert (found.partition, found.partitioner) == (partition_of(key, 7, "murmur2"), "murmur2")
        assert not found.HasField("slot")
        assert [each.value for each in found.replicas] == [key.decode()]
    await cluster.database.create_table("usual", partitions=7, replicas=1)
    found = await cluster.admin.explain("usual", b"foo")
    assert (found.partition, found.partitioner, found.slot) == (partition_of(b"foo", 7), "slot", 12182)


async def test_a_retry_is_reported_as_void(cluster: Operated) -> None:
    await cluster.database.create_table("flights", partitions=1, replicas=1)
    table = cluster.router.catalog.map.find("flights")
    batch = encode_batch(Columns([b"k"], [b"v"]), producer_id=7, sequence=0)
    for _ in range(2):
        await cluster.log.log.append(PartitionId(table.id, Partition(0)), batch)
    await cluster.until_level("flights")
    found = await cluster.admin.explain("flights", b"k")
    assert [each.verdict for each in found.writes] == ["void: a second copy of offset 0", "accepted"]


async def test_a_long_tail_is_searched_backwards_and_within_its_limit(cluster: Operated) -> None:
    await cluster.database.create_table("flights", partitions=1, replicas=1)
    table = cluster.router.catalog.map.find("flights")
    log, zero = cluster.log.log, Partition(0)
    for number in range(12):
        keys = [b"other%d" % each for each in range(999)] + [b"key" if number % 4 == 0 else b"no"]
        await log.append(
            PartitionId(table.id, zero), encode_batch(Columns(keys, [b"v"] * 1000), compress=number % 2 == 0)
        )
    bounds = await log.bounds(PartitionId(table.id, zero))
    assert bounds[:2] == (Offset(0), Offset(11_999))
    every = await last_writes(log, table.partition(zero), b"key", bounds, limit=10)
    assert ([each.offset for each in every.writes], every.searched_from) == ([8999, 4999, 999], 0)
    assert [(each.base_offset, each.last_offset) for each in every.writes] == [(8000, 8999), (4000, 4999), (0, 999)]
    newest = await last_writes(log, table.partition(zero), b"key", bounds, limit=1)
    assert ([each.offset for each in newest.writes], newest.searched_from) == ([8999], 5856)
    limited = await last_writes(log, table.partition(zero), b"key", bounds, limit=10, searched_max=6000)
    assert ([each.offset for each in limited.writes], limited.searched_from) == ([8999], 6000)
    empty = await last_writes(log, table.partition(zero), b"key", Bounds(Offset(0), Offset(-1)), limit=3)
    assert (empty.writes, empty.searched_from) == ([], 0)


async def test_equal_replicas_compare_equal_while_writes_go_on(cluster: Operated) -> None:
    flights = await cluster.database.create_table("flights", partitions=2, replicas=3)
    stop = asyncio.Event()

    async def write() -> int:
        number = 0
        while not stop.is_set():
            await flights.put(b"k%d" % (number % 50), b"%d" % number)
            number += 1
        return number

    writing = asyncio.ensure_future(write())
    try:
        for _ in range(3):
            found = [each async for each in cluster.admin.verify("flights")]
            assert [(each.partition, each.verdict) for each in found] == [(0, "equal"), (1, "equal")], found
    finally:
        stop.set()
        assert await writing > 0
    (one,) = [each async for each in cluster.admin.verify("flights", Partition(1))]
    assert (one.partition, len(one.replicas), len({each.digest for each in one.replicas})) == (1, 3, 1)


async def test_differences_are_named_to_the_key(cluster: Operated) -> None:
    flights = await cluster.database.create_table("flights", partitions=1, replicas=3)
    await flights.put_many({b"k%03d" % number: b"value" for number in range(300)})
    await cluster.until_level("flights")
    index = cluster.replica("n2", "flights", 0).index
    with index._env.begin(index._data, write=True) as txn:  # what no fold would ever do
        stored = txn.get(b"k007")
        txn.put(b"k007", stored[:-1] + b"X")
        txn.delete(b"k100")
    (found,) = [each async for each in cluster.admin.verify("flights")]
    assert found.verdict == "different"
    assert found.differing_buckets == 2
    assert sorted(each.key for each in found.differences) == ["k007", "k100"]
    by_key = {each.key: {replica.node: replica for replica in each.replicas} for each in found.differences}
    assert by_key["k007"]["n1"].version == by_key["k007"]["n2"].version
    assert by_key["k007"]["n1"].hash == by_key["k007"]["n3"].hash != by_key["k007"]["n2"].hash
    assert [by_key["k100"][node].present for node in ("n1", "n2", "n3")] == [True, False, True]
    assert len({each.digest for each in found.replicas}) == 2


async def test_what_cannot_be_compared(cluster: Operated) -> None:
    await cluster.database.create_table("single", partitions=1, replicas=1)
    await cluster.database.create_table("flights", partitions=1, replicas=3)
    await cluster.until_level("flights")
    await cluster.until_level("single")
    assert [each.verdict async for each in cluster.admin.verify("single")] == ["single"]
    await cluster.stop_node("n3")
    (found,) = [each async for each in cluster.admin.verify("flights")]
    assert (found.verdict, len(found.replicas)) == ("unverified", 2)
    assert found.reason.startswith("n3: ")
    with pytest.raises(InvalidRequest, match="partitions 0 to 0, not 5"):
        async for _ in cluster.admin.verify("flights", Partition(5)):
            pass
