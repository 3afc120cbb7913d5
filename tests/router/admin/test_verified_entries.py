"""`verify` compares the entries of ordered indexes with their rows, at each replica, and names those that are wrong."""

from __future__ import annotations

import pytest
from kit.cluster.operated import Operated
from kit.rows.flights import Flight

from duramen.cli.admin.rendering import say_comparison
from router.admin.answers.verify import digest_s
from router.proto import admin_pb2 as pb

INDEXES = {"by_tail": ("tailnum", "dep_delay"), "by_delay": "dep_delay"}


async def with_rows(cluster: Operated, replicas: int) -> None:
    flights = await cluster.database.create_table(
        "flights", row=Flight, key=("carrier", "flight"), partitions=1, replicas=replicas, indexes=INDEXES
    )
    await flights.put_many(Flight("UA", number, f"N{number % 3}", float(number)) for number in range(30))
    await cluster.until_level("flights")


async def verified(cluster: Operated) -> pb.AdminComparison:
    (found,) = [each async for each in cluster.admin.verify("flights")]
    return found


def spoil(cluster: Operated, node: str) -> None:
    """Take away the first entry behind the index's back, and leave one of no row: what no fold would ever do."""
    index = cluster.replica(node, "flights", 0).index
    with index._write("ordered") as txn:
        cursor = txn.cursor()
        assert cursor.first()
        entry, length = cursor.item()
        assert cursor.delete()
        assert txn.put(entry[:-1] + b"\x63", length)


async def test_entries_that_are_those_of_their_rows(cluster: Operated) -> None:
    await with_rows(cluster, 3)
    found = await verified(cluster)
    assert found.verdict == "equal"
    assert [(each.keys, each.entries, each.wrong) for each in found.replicas] == [(30, 60, 0)] * 3
    assert not found.wrong_entries


def test_a_node_has_time_to_look_at_the_entries_of_all_indexes() -> None:
    """Some 3 µs for a row with one entry: an answer at an offset ahead must not be given up while it is computed."""
    million = 1_000_000
    assert digest_s(million, 0) == pytest.approx(3.0)
    assert digest_s(million, 1) >= 3 * 3.0
    assert digest_s(million, 3) >= 3 * (0.8 + 1.5 + 3 * 1.5)


async def test_wrong_entries_of_one_replica(cluster: Operated, capsys: pytest.CaptureFixture[str]) -> None:
    await with_rows(cluster, 3)
    spoil(cluster, "n2")
    found = await verified(cluster)
    assert found.verdict == "damaged"
    assert len({each.digest for each in found.replicas}) == 1, "the rows are equal"
    assert {each.node: each.wrong for each in found.replicas} == {"n1": 0, "n2": 2, "n3": 0}
    assert [(each.node, each.index, each.problem) for each in found.wrong_entries] == [
        ("n2", "by_tail", "missing"),
        ("n2", "by_tail", "stale"),
    ]
    say_comparison(found)
    said = capsys.readouterr().out
    assert "n2: in the index by_tail the key" in said
    assert "has no entry" in said
    assert "has an entry that is not its row's" in said
    assert "duramen admin restore n2" in said


async def test_wrong_entries_of_a_lone_replica(cluster: Operated) -> None:
    await with_rows(cluster, 1)
    (node,) = [each.node for each in await cluster.admin.nodes() if each.replicas]
    spoil(cluster, node)
    found = await verified(cluster)
    assert found.verdict == "damaged"
    assert len(found.wrong_entries) == 2


async def test_an_index_that_is_built_anew_is_whole(cluster: Operated) -> None:
    await with_rows(cluster, 3)
    spoil(cluster, "n2")
    flights = cluster.database.table("flights", row=Flight)
    await flights.drop_index("by_tail")
    await flights.create_index("by_tail", *INDEXES["by_tail"])
    await cluster.until_level("flights")
    found = await verified(cluster)
    assert (found.verdict, [each.wrong for each in found.replicas]) == ("equal", [0, 0, 0])
