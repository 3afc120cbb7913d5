"""Finds: rows by their fields, through the key or an ordered index, in messages of a bounded size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from log_tier.access.user_turns import each_in_turn
from log_tier.model.errors import InvalidRequest
from log_tier.model.partitioner import partition_of_prefix
from log_tier.model.table_ref import TableRef
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.condition_words import conditions_of_json
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.finding.find_plan import find_plan
from log_tier.rows.finding.found_range import FindPlan
from log_tier.rows.finding.row_filter import row_filter
from log_tier.rows.index_entries import elements_of
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rows.json_rows.strict_json import strict_json
from log_tier.rows.table_index import INDEX_FIELDS_MAX
from log_tier.rpc.stream_budget import HeldPage
from router.data.requests import SCAN_PAGE_FIRST, ScanRequest, ScanResult, ScanWalk
from router.data.seam import DataPlane
from router.endpoints.grpc.kv.forms import TableText
from router.endpoints.grpc.kv.freshness import freshness_of, parse_token
from router.endpoints.grpc.kv.results import token_text
from router.endpoints.grpc.kv.scans import check_limit, entry_messages, items_of
from router.proto import kv_pb2 as kv

__all__ = ["find_pages"]

_WHERE_MAX: Final = 64 << 10
"""Characters of the conditions."""


async def find_pages(
    connection: DataPlane,
    table: TableRef,
    request: kv.KVFindRequest,
    deadline: float,
    held: HeldPage,
    rows: TableText,
    *,
    as_text: bool,
) -> AsyncIterator[kv.KVFindResponse]:
    """Yield messages until all rows that meet the conditions, or as many as were asked for, were given.

    `deadline` is the whole find's, on the event loop's clock. `as_text`: keys and values are shown as text. Raises
    `InvalidRequest`, which says what index would serve, where none does, `IndexBuilding`, and as `scan_pages`.
    """
    loop = asyncio.get_running_loop()
    asked = parse_token(request.after)
    freshness = freshness_of(table, asked, request)
    check_limit(request.limit)
    if len(request.order) > INDEX_FIELDS_MAX:
        raise InvalidRequest(f"order has at most {INDEX_FIELDS_MAX} fields, not {len(request.order)}")
    plan = await _planned(rows, request)
    only = partition_of_prefix(plan.key_prefix, table.partitions, table.partitioner) if plan.key_prefix else None
    first = ScanRequest(
        table.id,
        plan.start,
        plan.end,
        plan.reverse,
        SCAN_PAGE_FIRST,
        after=freshness.named(table.partitions),
        strong=freshness.strong,
        partitions=() if only is None else (only,),
        lag_max_ms=freshness.lag_max_ms,
        index=plan.index_name,
        index_number=plan.index_number,
    )
    left = request.limit or None
    walk = ScanWalk(first, None if plan.rest else left)
    each = rows.each_sized if as_text else each_in_turn
    seen, index, text, empty = dict(freshness.offsets), plan.index_name, rows if as_text else None, True
    while left != 0 and (wanted := walk.request()) is not None:
        wanted = replace(wanted, bytes_max=held.next_page(wanted.bytes_max))
        page = await connection.scan(wanted, timeout=max(0.0, deadline - loop.time()))
        held.got(sum(map(len, page.keys)) + sum(map(len, page.values)))
        seen.update(page.applied)
        walk.took(page)
        await rows.meet(page.values)
        found = await rows.run_sized(items_of(page, rows), partial(_met, rows.form.definition, plan, page, left))
        left = None if left is None else left - len(found.keys)
        token = token_text(table, seen, asked)
        async for message in each(items_of(found, text), entry_messages(found, token, text)):
            yield kv.KVFindResponse(entries=message.entries, token=token, index=index)
            empty, index = False, ""
    if empty:
        yield kv.KVFindResponse(token=token_text(table, seen, asked), index=index)


async def _planned(rows: TableText, request: kv.KVFindRequest) -> FindPlan:
    """The plan of a find. Where none serves, the table may have got an index since: a look at the catalog's end
    decides.
    """
    where = _where(request.where)

    def plan(form: JsonTable) -> FindPlan:
        definition = form.definition
        conditions = conditions_of(conditions_of_json(where, definition), definition)
        return find_plan(definition, conditions, list(request.order))

    return await rows.stored(0, plan)


def _where(text: str) -> dict[str, Any]:
    if len(text) > _WHERE_MAX:
        raise InvalidRequest(f"where has at most {_WHERE_MAX} characters, this one has {len(text)}")
    try:
        found = strict_json(text or "{}")
    except ValueError as error:
        raise InvalidRequest(f"where is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidRequest('where is an object of fields and what they are: {"tailnum": "N14228"}')
    return found


def _met(definition: TableDefinition, plan: FindPlan, page: ScanResult, left: int | None) -> ScanResult:
    """The rows of a page that meet the conditions, at most so many, under their keys."""
    meets = row_filter(plan.rest, definition)
    found = [each for each in zip(page.keys, page.values, page.versions, strict=True) if meets(each[1])][:left]
    if plan.index_name:
        # An entry is the elements of the index's fields, and behind them the key.
        elements = elements_of(definition.schemas, definition.index_named(plan.index_name).paths)
        found = [(entry[sum(map(len, elements(value, 0))) :], value, version) for entry, value, version in found]
    keys, values, versions = zip(*found, strict=True) if found else ((), (), ())
    return page._replace(keys=keys, values=values, versions=versions)
