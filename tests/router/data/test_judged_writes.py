"""Where a batch for a table with a definition is judged before it is sent: a turn of the event loop is short."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from kit.rows.judged_rows import of_rows, varint

from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import Command, CreateTable, RegisterNode
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.judge import RowJudge
from log_tier.rows.schema import NumberedSchema, RowSchema
from router.data.misfits import asked_where_misfit
from router.data.requests import WritePart

TABLE = TableId("uz7PoMe1SsyzElQe1u4IaA")
LISTS: list[Any] = [{"type": "array", "items": "boolean"}, {"type": "map", "values": "boolean"}]


def table_of(type_: Any) -> ClusterMap:
    schema = {"type": "record", "name": "Row", "fields": [{"name": "field", "type": type_}]}
    unnumbered = TableDefinition(1, "bytes", "row", (NumberedSchema(0, RowSchema.parse(schema)),))
    cluster = ClusterMap()
    commands: Sequence[Command] = (
        RegisterNode("n1", "h:1", "i1"),
        CreateTable(TABLE, "rows", 1, 1, definition=unnumbered.to_document()),
    )
    for command in commands:
        offset = Offset(cluster.version + 1)
        cluster, (_, rejection) = fold_command(cluster, offset, 10, f"c{offset}", command)
        assert rejection == ""
    return cluster


async def judged_on_loop(monkeypatch: pytest.MonkeyPatch, cluster: ClusterMap, value: bytes) -> bool:
    """Whether a batch of this value is judged on the event loop; it must fit."""
    threads: list[int] = []
    inner = RowJudge.fit

    def noted(self: RowJudge, keys: Sequence[bytes], values: Sequence[bytes]) -> bool:
        threads.append(threading.get_ident())
        return inner(self, keys, values)

    monkeypatch.setattr(RowJudge, "fit", noted)
    part = WritePart(PartitionId(TABLE, Partition(0)), encode_batch(Columns([b"k"], [value])), outcomes=False)
    assert await asked_where_misfit([part], cluster, set()) == [part], "it fits, so nobody asks for its outcome"
    (thread,) = threads
    return thread == threading.get_ident()


@pytest.mark.parametrize("bytes_", [1500, 3000, 30_000])
async def test_a_thread_judges_lists_of_some_kilobytes(monkeypatch: pytest.MonkeyPatch, bytes_: int) -> None:
    """Each byte may be a value, of which 32 KiB take 80 ms."""
    cluster = table_of(LISTS[0])
    value = frame(1, varint(2 * bytes_) + bytes([1]) * bytes_ + b"\0")
    assert await judged_on_loop(monkeypatch, cluster, value) == (bytes_ < 2000)


@pytest.mark.parametrize("bytes_", [3000, 30_000, 40_000])
async def test_the_loop_judges_plain_rows_of_some_kilobytes(monkeypatch: pytest.MonkeyPatch, bytes_: int) -> None:
    cluster = table_of("bytes")
    value = frame(1, varint(2 * bytes_) + bytes(bytes_))
    assert await judged_on_loop(monkeypatch, cluster, value) == (bytes_ < 32_000)


@pytest.mark.parametrize("type_", [*LISTS, ["null", LISTS[0]]])
def test_lists_are_seen_wherever_they_are(type_: Any) -> None:
    inside = {"type": "record", "name": "Inside", "fields": [{"name": "lists", "type": type_}]}
    for each in (type_, inside, ["null", inside]):
        rows = of_rows({"type": "record", "name": "Row", "fields": [{"name": "field", "type": each}]})
        assert rows.judge.has_lists
    plain = of_rows({"type": "record", "name": "Row", "fields": [{"name": "array", "type": ["null", "string"]}]})
    assert not plain.judge.has_lists
