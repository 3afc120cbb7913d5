"""The session self-test while versions are staged, swapped in, rolled back and discarded under it.

The versions are the table's own snapshots, so that they change nothing; what races the barriers are conditional writes,
updates, atomic batches, retries and watches.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from kit.cluster.operated import operated
from kit.cluster.repush import repushed
from kit.deadlines import until_true

from duramen.verification.checker import check_history
from duramen.verification.run import connect_to, run_check
from duramen.verification.workload import WorkloadShape
from log_tier.model.errors import DuramenError
from router.admin.verbs import Discard, Rollback, Stage, Swap

SHAPE = WorkloadShape(clients=5, watchers=2, hot_keys=8, cold_keys=60, timeout_s=10.0)


async def test_versions_come_and_go_under_the_self_test(tmp_path: Path) -> None:
    swaps = 0

    async def change_versions(stop: asyncio.Event) -> None:
        nonlocal swaps
        turn = 0

        async def has_records() -> bool:
            described = await cluster.database.table(next(iter(await cluster.database.tables())).name).describe()
            return all(part.latest >= 0 for part in described.partitions)

        await until_true(has_records)  # a build is of some offset
        while not stop.is_set() or swaps < 3:
            turn += 1
            table = next(iter(cluster.router.catalog.map.tables.values()))
            await cluster.done(Stage(table.name, await repushed(cluster, table, tmp_path / "cluster", turn)))
            await cluster.done(Swap(table.name))
            await cluster.done(Rollback(table.name))
            number = cluster.router.catalog.map.find(table.name).last_version
            await cluster.done(
                Swap(table.name, version=number) if turn % 2 else Discard(table.name, number, force=True)
            )
            swaps += 2 + turn % 2

    async with operated(tmp_path / "cluster") as cluster:
        target = f"127.0.0.1:{cluster.router.port}"
        try:
            history = await run_check(
                connect_to(target, timeout=SHAPE.timeout_s),
                seconds=3.0,
                seed="versions",
                shape=SHAPE,
                partitions=3,
                targets=[target],
                faults=change_versions,
            )
        except DuramenError as error:
            raise AssertionError(f"after {swaps} swaps: {error.message}") from error
    assert swaps >= 3
    assert sum(record.operation == "barrier" for record in history.log) >= 3 * 3
    assert check_history(history) == []
