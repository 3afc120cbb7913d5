"""`duramen table` and `duramen load` on tables that are placed by murmur2, and on tables over topics of others."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kit.client.command_line import lines, run_here
from kit.client.server_process import ServerProcess
from kit.cluster.one_machine import puts
from kit.log.others_log import OthersLog

from duramen.blocking import Database
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.wiring import single_machine as embedded
from log_tier.model.partitioner import partition_of
from log_tier.open import open_log

pytestmark = pytest.mark.embedded_log_only  # real topics of others: tests/kafka/test_topics_of_others.py

Run = Callable[..., Any]


def test_a_table_by_murmur2(server: ServerProcess, database: Database, table_name: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_here(*arguments, at=server.target)

    (created,) = lines(run("table", "create", table_name, "-p", "3", "--partitioner", "murmur2", "--json"))
    assert (created["partitions"], created["partitioner"], created["over"]) == (3, "murmur2", None)
    assert created in lines(run("table", "list", "--json"))
    assert {part["partitioner"] for part in lines(run("table", "describe", table_name, "--json"))} == {"murmur2"}
    assert f"table {table_name}, id {created['id']}, partitioner murmur2" in run("table", "describe", table_name).stdout
    listed = run("table", "list").stdout.splitlines()
    (row,) = [line for line in listed if created["id"] in line]
    assert row.split() == [table_name, "3", "murmur2", "–", created["id"]]

    rows = tmp_path / "rows.csv"
    rows.write_text("id,n\n" + "".join(f"key{number},{number}\n" for number in range(90)))
    assert run("load", table_name, str(rows), "-k", "id").returncode == 0
    held = [part.latest + 1 for part in database.describe_table(table_name).partitions]
    places: list[int] = [partition_of(b"key%d" % number, 3, "murmur2") for number in range(90)]
    assert held == [places.count(number) for number in range(3)]
    assert run("get", table_name, "key7", "--level", "strong").stdout == '{"id":"key7","n":"7"}\n'

    wrong = run("table", "create", "wrong", "--partitioner", "crc32")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "error: a table's partitioner is slot, murmur2, or fields:N with N from 1 to 32, not 'crc32'\n",
    )
    refused = run("table", "create", "orders", "--over", "orders-v1")
    assert refused.returncode == 2
    assert "an embedded log has no topics of others" in refused.stderr


class MachineOverOthers(NamedTuple):
    """A server in this process whose log has a topic of others, and a way to call it."""

    log: OthersLog
    run: Run


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MachineOverOthers]:
    logs: list[OthersLog] = []

    async def opened(url: str) -> Any:
        logs.append(OthersLog(await open_log(url)))  # type: ignore[arg-type]
        await logs[0].make_topic_of_others("orders-v1", partitions=2)
        return logs[0]

    monkeypatch.setattr(embedded, "open_log", opened)
    server = await SingleServer.open(tmp_path / "data", port=0)

    async def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(run_here, *arguments, at=f"127.0.0.1:{server.port}")

    yield MachineOverOthers(logs[0], run)
    await server.close()


async def test_a_table_over_a_topic_of_others(machine: MachineOverOthers) -> None:
    log, run = machine
    topic = await log.adopt_topic("orders-v1")
    key = b"o-1"
    place = partition_of(key, 2, "murmur2")
    await log.append(topic.partition(place), puts((key, b"theirs")))
    (created,) = lines(await run("table", "create", "orders", "--over", "orders-v1", "--json"))
    wanted = {"table": "orders", "id": topic.id, "partitions": 2, "partitioner": "murmur2", "over": "orders-v1"}
    assert created == wanted
    assert lines(await run("table", "list", "--json")) == [wanted]
    assert (await run("get", "orders", "o-1", "--level", "strong")).stdout == "theirs\n"
    assert (await run("put", "orders", "o-1", "ours")).stdout == f"offset 1 of partition {place}\n"
    described = await run("table", "describe", "orders")
    assert described.stdout.startswith(
        f"table orders over topic orders-v1, id {topic.id}, partitioner murmur2: 1 key; its log keeps everything; made "
    )
    again = await run("table", "create", "more", "--over", "orders-v1", "-p", "8")
    assert again.returncode == 2
    assert "topic orders-v1 has 2 partitions, and 8 are asked for table more" in again.stderr

    unasked = await run("table", "drop", "orders")
    assert unasked.returncode == 2
    assert "its topic orders-v1 stays" in unasked.stderr
    dropped = await run("table", "drop", "orders", "--yes")
    assert dropped.stdout == "dropped orders with its indexes of 1 key; its topic orders-v1 stays as it is\n"
    assert log.removals == []
    assert (await log.bounds(topic.partition(place))).latest == 1
    made = await run("table", "create", "orders", "--over", "orders-v1", "--partitioner", "murmur2")
    assert made.stdout == f"table orders over topic orders-v1 has 2 partitions (id {topic.id})\n"
    assert (await run("get", "orders", "o-1", "--level", "strong")).stdout == "ours\n"
    (gone,) = lines(await run("table", "drop", "orders", "--yes", "--json"))
    assert (gone["dropped"], gone["keys"], gone["kept_topic"]) == (True, 1, "orders-v1")
