"""Storms over a table's versions on a real cluster in one process: the data is a fold of the log, and nothing is lost
from sight: no task ends with an error that nobody has seen.

Three seeds, and 100 with `DURAMEN_CAMPAIGN=1`; `DURAMEN_STORM=17` plays that one.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kit.cluster.operated import Operated
from kit.cluster.version_storm import Storm

from log_tier.catalog.map_follower import MapFollower
from router.admin.admin import Admin
from router.admin.lazy import admin_on_demand
from router.membership.membership_on_demand import membership_on_demand
from serving_tier.replica.apply import Applying
from serving_tier.replica.standby import StandbyVersions

CAMPAIGN = os.environ.get("DURAMEN_CAMPAIGN") == "1"
SEEDS = [int(os.environ["DURAMEN_STORM"])] if "DURAMEN_STORM" in os.environ else [*range(100 if CAMPAIGN else 3)]


@pytest.fixture
async def admin(cluster: Operated) -> AsyncIterator[Admin]:
    catalog = cluster.router.catalog
    on_demand = admin_on_demand(catalog, cluster.log.log, membership_on_demand(MapFollower(catalog)))
    yield await on_demand()
    await on_demand.close()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Applying and closing wait now and then, so that other calls come in between."""
    chance = random.Random()
    apply, close = Applying._run, StandbyVersions.close_index

    async def slowly_applied(self: Applying, *how: Any, **named: Any) -> Any:
        await asyncio.sleep(chance.choice([0, 0, 0, 0.01]))
        return await apply(self, *how, **named)

    async def slowly_closed(self: StandbyVersions, *how: Any) -> Any:
        await asyncio.sleep(chance.choice([0, 0, 0.02]))
        return await close(self, *how)

    monkeypatch.setattr(Applying, "_run", slowly_applied)
    monkeypatch.setattr(StandbyVersions, "close_index", slowly_closed)
    return chance


async def check_storm(cluster: Operated, admin: Admin, slow: random.Random, seed: int, caplog: Any) -> None:
    unseen: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unseen.append(f"{context['message']}: {context.get('exception')!r}"))
    slow.seed(f"slow {seed}")
    table = await cluster.database.create_table(f"t{seed}", partitions=2, replicas=2)
    storm = Storm(cluster, admin, table, seed)
    try:
        await storm.rage()
        await storm.check()
        gc.collect()
        await asyncio.sleep(0)
        assert not unseen, unseen
        bugs = [record.getMessage() for record in caplog.records if "by a bug" in record.getMessage()]
        assert not bugs, bugs
    except BaseException as error:
        error.add_note(f"seed {seed}:\n" + "\n".join(storm.said))
        raise
    finally:
        loop.set_exception_handler(None)
    await cluster.database.drop_table(table.name)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_storm(
    cluster: Operated, admin: Admin, slow: random.Random, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    await check_storm(cluster, admin, slow, seed, caplog)
