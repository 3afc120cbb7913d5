"""A partition's build in this process, as a task does it; what a task reports to the driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kit.spark.building import BASE, PARTITION, PARTITIONS, TABLE, entries_of, mark, rows_batch, topic

from log_tier.model.errors import InvalidKey, InvalidRequest, SnapshotDamaged, SnapshotStoreUnavailable
from log_tier.model.identifiers import Offset, PartitionId
from serving_tier.fold.entry import LiveEntry
from serving_tier.snapshots import SnapshotStore, install_snapshot
from spark_bulk.build.index_writer import Base
from spark_bulk.build.outcome import PartitionOutcome
from spark_bulk.build.partition_build import BuildPlan, build_partition


def plan_for(url: object) -> BuildPlan:
    return BuildPlan("b0b0", topic(), (Base(BASE.offset, 0),) * 2 + (BASE,) + (BASE,), str(url), key_name="tail")


def read_back(outcome: PartitionOutcome) -> PartitionOutcome:
    """As it comes to the driver."""
    (row,) = outcome.to_batch().to_pylist()
    return PartitionOutcome.of_row(row)


async def test_rows_become_a_snapshot_and_the_task_tells_of_it(tmp_path: Path) -> None:
    plan = replace(plan_for(tmp_path / "store"), duplicates="last")
    (tmp_path / "work").mkdir()
    batches = [mark(), rows_batch([(b"a", b"1"), (b"b", b"2")]), rows_batch([(b"b", b"3"), (b"c", b"4")])]
    outcome = await in_a_thread(plan, batches, tmp_path / "work")
    assert outcome.manifest is not None
    assert read_back(outcome) == outcome
    assert (outcome.rows, outcome.dropped, outcome.manifest.keys) == (4, 1, 3)
    assert outcome.manifest.id.startswith("b0b0")
    assert list((tmp_path / "work").iterdir()) == []
    store = SnapshotStore.open(tmp_path / "store")
    await store.verify(outcome.manifest)
    await install_snapshot(store, outcome.manifest.path, tmp_path / "node", partition=PartitionId(TABLE, PARTITION))
    assert {key: entry.value for key, entry in entries_of(tmp_path / "node").items()} == {
        b"a": b"1",
        b"b": b"2",
        b"c": b"4",
    }


async def test_an_empty_partition_has_an_empty_index(tmp_path: Path) -> None:
    outcome = await in_a_thread(plan_for(tmp_path / "store"), [mark()], tmp_path)
    assert outcome.manifest is not None
    assert (outcome.rows, outcome.manifest.keys, outcome.manifest.offset) == (0, 0, BASE.offset)


async def test_versions_and_expiries_are_kept(tmp_path: Path) -> None:
    rows = rows_batch([(b"a", b"1"), (b"b", b"2")], versions=[7, 41], expires_at_ms=[None, 2_000_000])
    outcome = await in_a_thread(plan_for(tmp_path / "store"), [mark(), rows], tmp_path)
    assert outcome.manifest is not None
    store = SnapshotStore.open(tmp_path / "store")
    await install_snapshot(store, outcome.manifest.path, tmp_path / "node", partition=PartitionId(TABLE, PARTITION))
    assert entries_of(tmp_path / "node") == {
        b"a": LiveEntry(b"1", Offset(7), 0),
        b"b": LiveEntry(b"2", Offset(41), 2_000_000),
    }


async def test_what_cannot_be_written_is_reported_and_not_raised(tmp_path: Path) -> None:
    """Another attempt would meet the same rows."""
    (tmp_path / "work").mkdir()
    outcome = await in_a_thread(
        plan_for(tmp_path / "store"), [mark(), rows_batch([(b"a", b"1"), (b"k" * 600, b"")])], tmp_path / "work"
    )
    assert outcome.manifest is None
    assert isinstance(outcome.error, InvalidKey)
    passed_on = read_back(outcome)
    assert isinstance(passed_on.error, InvalidKey)
    assert (passed_on.error.message, passed_on.error.fields) == (outcome.error.message, {"size": 600})
    assert "the key column tail has b'kkkk" in passed_on.error.message
    assert list((tmp_path / "work").iterdir()) == []
    assert not (tmp_path / "store").exists()


async def test_rows_that_spark_did_not_sort_are_refused(tmp_path: Path) -> None:
    outcome = await in_a_thread(plan_for(tmp_path), [mark(), rows_batch([(b"b", b""), (b"a", b"")])], tmp_path)
    assert isinstance(outcome.error, InvalidRequest)
    assert "the key b'a' comes after b'b'" in outcome.error.message


async def test_what_another_attempt_may_heal_is_raised(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("no folder")
    (tmp_path / "work").mkdir()
    with pytest.raises(SnapshotStoreUnavailable):
        await in_a_thread(plan_for(tmp_path / "store"), [mark()], tmp_path / "work")
    assert list((tmp_path / "work").iterdir()) == []


def test_an_outcome_that_was_damaged_is_refused() -> None:
    (row,) = PartitionOutcome(PARTITION, error=InvalidKey("x")).to_batch().to_pylist()
    with pytest.raises(SnapshotDamaged, match="partition 2 cannot be read"):
        PartitionOutcome.of_row({**row, "manifest": b"{", "error": None})


async def in_a_thread(plan: BuildPlan, batches: list[object], folder: Path) -> PartitionOutcome:
    """A task blocks, and has no event loop."""
    import asyncio

    assert plan.table.partitions == PARTITIONS
    return await asyncio.to_thread(lambda: build_partition(plan, PARTITION, batches, folder=folder))
