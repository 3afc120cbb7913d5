"""Staging: the tasks that bring and remove a replica's versions."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace

from kit.cluster.hosted_node import ONE, ZERO, make_table

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import VersionEntry
from log_tier.embedded import EmbeddedLog
from serving_tier.node.hosting import Hosting


async def test_what_ends_before_it_began_leaves_nothing(hosting: Hosting, log: EmbeddedLog, catalog: Catalog) -> None:
    """A node that stops as a version is staged: no coroutine is left that nobody awaits, which warns."""
    topic = await make_table(log, catalog)
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_hosted(topic.id)
    table = catalog.map.tables[topic.id]
    staged = replace(table, versions=(VersionEntry(1, "live"), VersionEntry(2, "staging", "file:///nowhere")))
    cluster = replace(catalog.map, tables=catalog.map.tables.with_entry(topic.id, staged))
    before = asyncio.all_tasks()
    hosting.staging.compare(cluster, [topic.partition(ZERO), topic.partition(ONE)])
    assert asyncio.all_tasks() - before, "a version is on its way"
    await hosting.staging.close()  # no turn of the loop in between
    gc.collect()
