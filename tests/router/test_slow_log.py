"""The clock that the contracts of `DataPlane` and `TableAdmin` judge by (`kit.cluster.slow_log`)."""

from __future__ import annotations

import pytest
from kit.cluster.one_machine import DEADLINE_S, all_replicas
from kit.cluster.slow_log import CALL_S, check_time_is_shared, slow_log
from kit.deadlines import until

from log_tier.rows.table_spec import TableSpec
from router.data.local_data import LocalData


async def test_no_time_passes_while_an_answer_is_on_its_way(data_plane: LocalData) -> None:
    """Whatever this process still does for the change: a busy machine gives it as long as it likes."""

    async def late() -> object:
        try:
            return await data_plane.create_table(TableSpec("new", 1), timeout=CALL_S)
        finally:
            await until(lambda: data_plane.catalog.map.named("new"))
            await data_plane.hosting.wait_version(data_plane.catalog.map.version)
            assert all_replicas(data_plane, data_plane.catalog.map.find("new").ref)

    with slow_log(data_plane):
        await check_time_is_shared(late)


async def test_a_call_that_takes_more_than_its_time_is_found(data_plane: LocalData) -> None:
    async def unbounded() -> object:
        await data_plane.create_table(TableSpec("new", 1), timeout=10 * CALL_S)
        return await data_plane.describe_table("new", timeout=CALL_S)

    with slow_log(data_plane), pytest.raises(AssertionError, match=r"\d+ s of 100 s"):
        await check_time_is_shared(unbounded)


async def test_time_passes_for_a_caller_who_asks_the_log_itself(data_plane: LocalData) -> None:
    table = await data_plane.create_table(TableSpec("flights", 1), timeout=DEADLINE_S)

    async def twice() -> None:
        for _ in range(2):
            await data_plane.log.all_bounds(table.id)

    with slow_log(data_plane), pytest.raises(AssertionError, match=r"\d+ s of 100 s"):
        await check_time_is_shared(twice)
