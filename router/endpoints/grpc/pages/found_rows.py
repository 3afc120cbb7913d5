"""A page of rows that are found by their fields."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, cast

from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rpc.stream_budget import StreamBudget
from router.data.seam import Connection
from router.endpoints.grpc.kv.finds import find_pages
from router.endpoints.grpc.kv.forms import TextForms
from router.endpoints.grpc.pages.entries import cut_entry, rows_of, value_bytes_of
from router.proto import console_pb2 as pb
from router.proto import kv_pb2 as kv

__all__ = ["page_of_rows"]

_ROW_BYTES: Final = 256
"""So many bytes of text take as long as what there is to do for each row, whatever its size."""


async def page_of_rows(
    connection: Connection, request: pb.ConsoleFindRequest, forms: TextForms, budget: StreamBudget, *, timeout: float
) -> pb.ConsolePage:
    """The first rows that meet the conditions, and whether there is one more. Reads pages of the index until then, and
    holds one of them, within `budget`.

    Raises `TableNotFound`, `InvalidRequest`, which says what index would serve where none does, `IndexBuilding`,
    `DeadlineExceeded` where too few rows meet the conditions to be found in time, and what a scan raises.
    """
    bytes_max, limit = value_bytes_of(request.value_bytes_max), rows_of(request.limit, 100)
    deadline = asyncio.get_running_loop().time() + timeout
    table = await connection.find_table(request.table, timeout=timeout)
    rows, _ = await forms.of_rows(connection, table, kv.KV_FORM_JSON, deadline)
    asked = kv.KVFindRequest(
        where=request.where,
        order=request.order,
        limit=limit + 1,
        level=kv.KV_LEVEL_EVENTUAL if request.eventual else kv.KV_LEVEL_STRONG,
    )
    page = pb.ConsolePage()
    with budget.stream() as held:
        found = find_pages(connection, table, asked, deadline, held, rows, as_text=False)
        async with aclosing(cast("Any", found)) as messages:
            async for message in messages:
                page.index = page.index or message.index
                size = sum(len(each.value) + _ROW_BYTES for each in message.entries)
                page.entries.extend(await rows.converted(size, partial(_shown, message.entries, bytes_max)))
    if len(page.entries) > limit:
        del page.entries[limit:]
        page.more = True
    return page


def _shown(entries: Sequence[kv.KVEntry], bytes_max: int, form: JsonTable) -> list[pb.ConsoleEntry]:
    """The entries of a page, made of those of one message: each row's text is cut before the next one is made."""
    return [cut_entry(each.key, form.value_text(each.value), each.version, 0, bytes_max, form) for each in entries]
