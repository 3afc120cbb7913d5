"""Chunks that the event loop applies itself: what one caller at a time writes, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from kit.deadlines import patience_s
from kit.index.one_replica import ReplicaSetting, replica_setting

from log_tier.model.identifiers import Offset
from serving_tier.replica.applier import Applier
from serving_tier.replica.replica import Replica

WARM_UP = 12
"""Lone writes after which the applier knows that they are quick."""


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[ReplicaSetting]:
    """An applier for which no time passes: what a busy machine's clock says is no part of these tests."""
    async with replica_setting(tmp_path) as made:
        applier = Applier(stopwatch_s=lambda: 0.0)
        applier.start()
        yield replace(made, applier=applier)
        await applier.stop()


async def write(setting: ReplicaSetting, replica: Replica, *keys: bytes, value: bytes = b"v") -> Offset:
    """Write one batch, and wait until it is applied."""
    offset = await setting.write(*keys, value=value)
    await replica.wait_applied(offset, timeout=patience_s(20.0))
    return offset


async def test_lone_writes_are_applied_by_the_event_loop(setting: ReplicaSetting) -> None:
    replica = await setting.open()
    for number in range(WARM_UP):
        await write(setting, replica, b"key", value=b"%d" % number)
    at_once = setting.applier.jobs_at_once
    assert at_once > 0
    await write(setting, replica, b"key", value=b"last")
    assert setting.applier.jobs_at_once == at_once + 1
    found = replica.index.get(b"key")
    assert found is not None
    assert found.value == b"last"
    replica.check()
    await replica.close()


async def test_many_records_and_large_ones_are_applied_in_the_thread(setting: ReplicaSetting) -> None:
    replica = await setting.open()
    for _ in range(WARM_UP):
        await write(setting, replica, b"key")
    at_once = setting.applier.jobs_at_once
    await write(setting, replica, *(b"key %d" % number for number in range(5)))
    await write(setting, replica, b"large", value=bytes(20_000))
    assert setting.applier.jobs_at_once == at_once
    assert replica.index.count() == 7
    await replica.close()


async def test_two_replicas_of_a_partition_apply_small_chunks_alike(setting: ReplicaSetting) -> None:
    one, other = await setting.open("0"), await setting.open("1")
    for number in range(WARM_UP + 10):
        offset = await write(setting, one, b"key", value=b"%d" % number)
        await other.wait_applied(offset, timeout=patience_s(20.0))
        assert one.index.get(b"key") == other.index.get(b"key")
    assert setting.applier.jobs_at_once > 0
    for replica in (one, other):
        replica.check()
        await replica.close()
