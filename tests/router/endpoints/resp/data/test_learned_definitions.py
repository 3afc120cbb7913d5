"""A server of the Redis protocol that has not heard of a table's newest schema yet."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from kit.flight_rows import ALTERED_FLIGHTS, FLIGHTS, flight, later_flight

from log_tier.model.errors import InvalidRow, UnknownFormat
from log_tier.model.identifiers import TableId
from log_tier.model.table_ref import TableRef
from log_tier.rows.definition import NEWEST_SCHEMA, TableDefinition
from log_tier.rows.json_rows.json_table import JsonTable
from router.endpoints.resp.commands.command_table import COMMANDS
from router.endpoints.resp.data.served_tables import ServedTable, ServedTables
from router.endpoints.resp.data.value_cache import CacheBudget
from router.endpoints.resp.row_words import shown_replies, stored_commands

REF = TableRef(TableId("A" * 22), "flights", 1, "fields:1", defined=True)
KEY = b'["UA",7]'
GET, SET = COMMANDS["get"], COMMANDS["set"]


class CatalogEnd:
    """What the catalog has at its end. `asked`: the schemas that were asked for."""

    def __init__(self, definition: TableDefinition) -> None:
        self.asked: list[int] = []
        self._definition = definition

    async def definition(self, table_id: TableId, *, schema: int = 0, timeout: float) -> TableDefinition:
        self.asked.append(schema)
        await asyncio.sleep(0)
        return self._definition


def late(end: CatalogEnd) -> tuple[ServedTables, ServedTable]:
    connection: Any = end
    tables = ServedTables(connection, None, lambda: 1, CacheBudget(0), known=dict)
    return tables, ServedTable(REF, None, CacheBudget(0), form=JsonTable(FLIGHTS))


async def test_a_row_of_a_later_schema_is_looked_up_once_for_all() -> None:
    end = CatalogEnd(ALTERED_FLIGHTS)
    tables, table = late(end)
    found = await asyncio.gather(
        *(shown_replies(tables, table, [GET], [stored]) for stored in [later_flight("UA", 7)] * 5)
    )
    assert {json.loads(reply)["gate"] for (reply,) in found} == {"B7"}
    assert end.asked == [2]
    (old,) = await shown_replies(tables, table, [GET], [flight("UA", 7)])
    assert json.loads(old)["gate"] == "-"
    assert end.asked == [2]


async def test_a_number_that_the_table_does_not_have_is_looked_up_once_for_all() -> None:
    end = CatalogEnd(FLIGHTS)
    tables, table = late(end)
    ended = await asyncio.gather(
        *(shown_replies(tables, table, [GET], [later_flight("UA", 7, schema=77)]) for _ in range(5)),
        return_exceptions=True,
    )
    assert all(isinstance(each, UnknownFormat) for each in ended)
    assert end.asked == [77]


async def test_a_row_that_does_not_fit_is_tried_by_the_newest_schema() -> None:
    end = CatalogEnd(ALTERED_FLIGHTS)
    tables, table = late(end)
    row = {"carrier": "UA", "flight": 7, "dep_delay": 0.0, "gate": "B7"}
    (stored,) = await stored_commands(tables, table, [(SET, [b"SET", KEY, json.dumps(row).encode()])])
    assert stored[2] == later_flight("UA", 7)
    assert end.asked == [NEWEST_SCHEMA]
    with pytest.raises(InvalidRow, match="wings"):
        await stored_commands(tables, table, [(SET, [b"SET", KEY, json.dumps({**row, "wings": 2}).encode()])])
