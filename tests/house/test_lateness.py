"""The options that make replicas and reports late change what is there, and what they change goes on working."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path

import pytest
from kit.cluster.in_process import DEADLINE_S, cluster_of, written
from kit.cluster.one_machine import puts
from kit.late.sitecustomize import LATE

from log_tier.model.identifiers import Partition, PartitionId
from log_tier.rows.table_spec import TableSpec
from router.data.requests import ReadPart, ReadResult, WritePart

LATE_S = 0.05


@pytest.mark.parametrize("option", [late.option for late in LATE])
async def test_what_is_late_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    """A table is made, written and read, through maps, reports and replicas, later than it is without the option."""
    (late,) = (each for each in LATE if each.option == option)
    for module in late.changes:
        late.change(import_module(module), LATE_S, monkeypatch.setattr)
    loop = asyncio.get_running_loop()
    async with cluster_of(tmp_path) as cluster:
        begun_s = loop.time()
        table = await cluster.router.create_table(TableSpec("flights", partitions=1), timeout=DEADLINE_S)
        name = PartitionId(table.id, Partition(0))
        result = await written(cluster.router, WritePart(name, puts((b"k", b"v"))))
        (found,) = await cluster.router.read([ReadPart(name, [b"k"], result.base_offset)], timeout=DEADLINE_S)
        assert isinstance(found, ReadResult)
        assert list(found.values) == [b"v"]
        assert loop.time() - begun_s >= LATE_S
