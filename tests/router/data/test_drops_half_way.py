"""A drop whose log is deleted, and whose command the catalog does not take: it finishes by itself."""

from __future__ import annotations

from typing import Any

import pytest
from kit.deadlines import until

from log_tier.catalog.commands import DropTable
from log_tier.model.errors import Disconnected, TableNotFound, Unavailable
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.catalog_tables import CatalogTables
from router.data.local_data import LocalData

DEADLINE_S = 20.0


class DeafCatalog:
    """A catalog that hears of no drop, as long as `is_deaf`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.is_deaf = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def submit(self, command: Any, **more: Any) -> Any:
        if self.is_deaf and isinstance(command, DropTable):
            raise Disconnected("the catalog is away")
        return await self._inner.submit(command, **more)


def tables_of(data_plane: LocalData) -> tuple[CatalogTables, DeafCatalog]:
    catalog: Any = DeafCatalog(data_plane.catalog)
    return CatalogTables(data_plane.log, catalog), catalog


async def test_the_drop_finishes_when_the_catalog_is_back(data_plane: LocalData, table: TableRef) -> None:
    tables, catalog = tables_of(data_plane)
    with pytest.raises(Unavailable, match=r"log of table flights is deleted.*the catalog is away.*goes on trying"):
        await tables.drop("flights")
    with pytest.raises(Unavailable):
        await tables.drop("flights")
    assert [each.name for each in await data_plane.list_tables(timeout=DEADLINE_S)] == ["flights"]
    catalog.is_deaf = False
    await until(lambda: table.id not in data_plane.catalog.map.tables)
    with pytest.raises(TableNotFound):
        await tables.drop("flights")
    await tables.close()


async def test_a_table_of_that_name_is_made_meanwhile(data_plane: LocalData, table: TableRef) -> None:
    tables, catalog = tables_of(data_plane)
    with pytest.raises(Unavailable):
        await tables.drop("flights")
    new = await data_plane.create_table(TableSpec("flights", partitions=2), timeout=DEADLINE_S)
    assert new.id != table.id
    catalog.is_deaf = False
    await tables.close()
    assert [each.id for each in await data_plane.list_tables(timeout=DEADLINE_S)] == [new.id]


async def test_a_server_that_stops_waits_for_no_catalog(data_plane: LocalData, table: TableRef) -> None:
    tables, _ = tables_of(data_plane)
    with pytest.raises(Unavailable):
        await tables.drop("flights")
    await tables.close()
    assert table.id in data_plane.catalog.map.tables
