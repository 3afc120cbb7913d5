"""Staging from locations that a server does not open: refused by the planner, and by the node that would open it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.cluster.operated import Operated, operated, table_of, version_states
from kit.index.version_building import build_version

from log_tier.model.errors import LocationRefused
from router.admin.verbs import Stage

KEYS = [b"k%d" % number for number in range(6)]


@pytest.fixture
async def cluster(tmp_path: Path, s3_address: str) -> AsyncIterator[Operated]:
    """Its router names the object store on loopback. Its nodes do not."""
    store = f"s3://*?endpoint_url={s3_address}"
    async with operated(tmp_path, nodes=("n1", "n2"), router_locations=[store]) as opened:
        yield opened


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/v?endpoint_url=http://169.254.169.254",
        "s3://bucket/v?endpoint_url=http://[::ffff:169.254.169.254]:80",
        "s3://bucket/v?endpoint_url=http://2130706433:9000",
        "/bulk/../etc",
        "file://host/share",
        "S3://bucket/v",
    ],
)
async def test_the_planner_refuses(cluster: Operated, url: str) -> None:
    await table_of(cluster, KEYS)
    for dry_run in (True, False):
        with pytest.raises(LocationRefused, match="allowed_locations") as caught:
            await cluster.admin.start(Stage("flights", url), dry_run=dry_run)
        assert caught.value.fields["setting"] == "allowed_locations"
    assert await version_states(cluster) == {1: "live"}
    assert not await cluster.admin.jobs()


async def test_a_node_refuses_what_another_server_let_pass(
    cluster: Operated, tmp_path: Path, s3_address: str, bucket: str
) -> None:
    table = await table_of(cluster, KEYS)
    url = f"s3://{bucket}/v?endpoint_url={s3_address}"
    ref = cluster.router.catalog.map.find("flights").ref
    bases = [100] * 3
    await build_version(url, ref, dict.fromkeys(KEYS, b"2"), bases=bases, work=tmp_path / "work")
    for number in range(400):
        await table.put(b"more%d" % number, b"1")
    plan = await cluster.admin.start(Stage("flights", url))
    job = await cluster.ended(plan.job)
    assert job.state == "failed", job
    assert "location_refused" in str(job)
    assert "allowed_locations" in str(job)
    assert {value async for _, value in table.scan(level="strong")} == {b"1"}
    await cluster.admin.abort(plan.job)
    assert await version_states(cluster) == {1: "live"}
