"""How long a node waits before it brings a replica up again: restarts of one that stops, bringing up that
fails, a version that cannot be brought.
"""

from __future__ import annotations

import errno
import logging
import os
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kit.cluster.hosted_node import DEADLINE_S, ZERO, append, make_table
from kit.deadlines import until, within

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import ClearTable, CreateTable
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import DiskFull, DuramenError, IndexDamaged
from log_tier.model.identifiers import PartitionId, TableId
from serving_tier import names
from serving_tier.disk import KernelCalls
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.node import staging
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node
from serving_tier.node.restart_pauses import RestartPauses
from serving_tier.replica.replica import Replica
from serving_tier.service.replica_status import Sizes, status_of
from serving_tier.versions.empty import make_empty

NAME = PartitionId(TableId("AAAAAAAAAAAAAAAAAAAAAA"), ZERO)


class Parts(NamedTuple):
    """A node, what it follows, and what it logs."""

    hosting: Hosting
    log: EmbeddedLog
    catalog: Catalog
    caplog: pytest.LogCaptureFixture

    def lines(self) -> list[tuple[str, bool]]:
        """What the node has logged, and whether with a traceback."""
        records = (each for each in self.caplog.records if each.name.startswith("serving_tier.node"))
        return [(each.getMessage(), bool(each.exc_info)) for each in records]


@pytest.fixture
def parts(hosting: Hosting, log: EmbeddedLog, catalog: Catalog, caplog: pytest.LogCaptureFixture) -> Parts:
    caplog.set_level(logging.INFO, "serving_tier.node")
    return Parts(hosting, log, catalog, caplog)


def test_the_pauses_grow_while_a_replica_stops_again_and_again() -> None:
    now_s = 1000.0
    pauses = RestartPauses(first_s=0.5, max_s=4.0, clock=lambda: now_s)
    assert pauses.after_stop(NAME) == 0.0
    for full in (0.5, 1.0, 2.0, 4.0, 4.0):
        now_s += 5.0
        assert full / 2 <= pauses.after_stop(NAME) <= full
    now_s += 65.0  # it went on for a minute behind its pause
    assert pauses.after_stop(NAME) == 0.0
    assert pauses.after_stop(NAME) > 0.0
    pauses.forget(NAME)
    assert pauses.after_stop(NAME) == 0.0


async def test_bringing_up_that_fails_by_a_bug_is_tried_again_with_one_line_a_try(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No new map comes, which would be compared with what is open."""
    inner, bugs, refusals = Node.host, 3, list[str]()

    async def host(self: Node, *arguments: Any, **named: Any) -> Replica:
        refusals.extend(refusal.message for refusal in self.refusals.values())
        if len(refusals) < bugs:
            raise RuntimeError("a bug")
        return await inner(self, *arguments, **named)

    monkeypatch.setattr(Node, "host", host)
    topic = await parts.log.create_topic("flights", partitions=1)
    await append(parts.log, topic, ZERO)  # without a record it would be opened without a look at its folder
    await parts.catalog.submit(CreateTable(topic.id, topic.name, 1, 2))
    name = topic.partition(ZERO)
    async with within(DEADLINE_S):
        with pytest.raises(DuramenError, match=r"could not be opened: RuntimeError\('a bug'\)"):
            await parts.hosting.wait_ready(name, lambda *_: None)
        await until(lambda: name in parts.hosting.node.hosted())
    assert refusals == ["replica flights/0 could not be opened: RuntimeError('a bug')"] * bugs
    ended = "bringing up flights/0 ended by a bug"
    again = [(f"{ended}: RuntimeError('a bug') ({times} times in a row)", False) for times in range(2, bugs + 1)]
    assert parts.lines() == [(ended, True), *again]


async def test_a_replica_that_a_bug_stops_again_and_again_logs_one_counted_line_each_time(
    hosting: Hosting,
    log: EmbeddedLog,
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner, bugs, tries = LmdbIndex.fold_in, 3, 0

    def fold_in(self: LmdbIndex, batches: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries <= bugs:
            raise RuntimeError("a bug")
        return inner(self, batches)

    monkeypatch.setattr(LmdbIndex, "fold_in", fold_in)
    caplog.set_level(logging.INFO, "serving_tier")
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    last = await append(log, topic, ZERO)
    name = topic.partition(ZERO)
    async with within(DEADLINE_S):
        await until(lambda: name in hosting.node.hosted() and hosting.node.hosted()[name].applied == last)
    lines = [record for record in caplog.records if record.levelno > logging.INFO]
    what = "replica flights/0 stopped at -1 by a bug: RuntimeError('a bug')"
    assert [(record.getMessage(), bool(record.exc_info)) for record in lines] == [
        (what, True),
        (f"{what} (2 times in a row)", False),
        (f"{what} (3 times in a row)", False),
    ]


async def test_a_replica_whose_file_the_disk_does_not_close_is_brought_up_again(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await make_table(parts.log, parts.catalog, partitions=1, replicas=2)
    name = topic.partition(ZERO)
    inner, failed = LmdbIndex.close, list[OSError]()

    def close(self: LmdbIndex, *, clean: bool = True) -> None:
        inner(self, clean=clean)
        if not failed:
            failed.append(OSError("the marker could not be written"))
            raise failed[0]

    async with within(DEADLINE_S):
        await parts.hosting.wait_ready(name, lambda *_: None)
        replica = parts.hosting.node.replica(name)
        await replica.wait_applied(await append(parts.log, topic, ZERO), timeout=DEADLINE_S)
        monkeypatch.setattr(LmdbIndex, "close", close)
        replica.damaged(IndexDamaged("a page is torn"))
        await until(lambda: parts.hosting.node.hosted().get(name) not in (None, replica))
    assert "flights/0 could not be closed cleanly: the marker could not be written" in parts.caplog.text
    assert "by a bug" not in parts.caplog.text


async def test_a_version_that_a_bug_keeps_away_is_fetched_again_with_one_line_a_try(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job that wants the version sees what keeps it away, and it comes as soon as it can."""
    bugs, tries = 2, 0

    async def make(*arguments: Any) -> None:
        nonlocal tries
        tries += 1
        if tries <= bugs:
            raise RuntimeError("a bug")
        await make_empty(*arguments)

    monkeypatch.setattr(staging, "make_empty", make)
    topic = await make_table(parts.log, parts.catalog, partitions=1, replicas=1)
    name = topic.partition(ZERO)
    async with within(DEADLINE_S):
        await parts.hosting.wait_ready(name, lambda *_: None)
        await parts.catalog.submit(ClearTable(topic.id, (await append(parts.log, topic, ZERO),)))
        await until(lambda: tries > 0)
        with pytest.raises(DuramenError, match=r"version 2 of flights/0 could not be brought: RuntimeError\('a bug'\)"):
            await parts.hosting.staging.wait_level(name, 2, lambda *_: None)
        await until(lambda: 2 in parts.hosting.node.replica(name).versions.level)
        await parts.hosting.staging.wait_level(name, 2, lambda *_: None)
    assert tries == bugs + 1
    traced = [line for line, with_traceback in parts.lines() if with_traceback]
    assert traced == ["bringing version 2 of flights/0 ended by a bug"]
    assert "bringing version 2 of flights/0 ended by a bug: RuntimeError('a bug') (2 times in a row)" in [
        line for line, _ in parts.lines()
    ]


async def test_a_full_disk_keeps_a_version_away_until_it_has_room(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job gets a typed error that names the file; the live version is served, and the new one comes by itself."""
    refused = list[Path]()

    def create(disk: KernelCalls, path: Path) -> FileIO:
        if names.is_version_of(path.parent.name, "0"):
            refused.append(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return inner(disk, path)

    inner = KernelCalls.create
    monkeypatch.setattr(KernelCalls, "create", create)
    topic = await make_table(parts.log, parts.catalog, partitions=1, replicas=1)
    name = topic.partition(ZERO)
    async with within(DEADLINE_S):
        await parts.hosting.wait_ready(name, lambda *_: None)
        await parts.catalog.submit(ClearTable(topic.id, (await append(parts.log, topic, ZERO),)))
        await until(lambda: len(refused) > 0)
        with pytest.raises(DiskFull, match=f"No space left on device .{refused[0]}.: make room"):
            await parts.hosting.staging.wait_level(name, 2, lambda *_: None)
        replica = parts.hosting.node.replica(name)
        await replica.wait_applied(await append(parts.log, topic, ZERO), timeout=DEADLINE_S)
        assert "by a bug" not in parts.caplog.text
        monkeypatch.undo()
        await until(lambda: 2 in parts.hosting.node.replica(name).versions.level)


async def test_a_full_disk_keeps_a_replica_away_until_it_has_room(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_folder(disk: KernelCalls, path: Path, *, exist_ok: bool = True) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(KernelCalls, "make_folder", make_folder)
    topic = await make_table(parts.log, parts.catalog, partitions=1, replicas=1)
    name = topic.partition(ZERO)
    async with within(DEADLINE_S):
        end = await append(parts.log, topic, ZERO)
        await until(lambda: name in parts.hosting.node.hosted())
        replica = parts.hosting.node.replica(name)
        await until(lambda: "No space left on device: make room" in replica.progress.obstacle)
        assert str(replica.index.path) in status_of(replica, Sizes()).reason
        assert replica.index.applied < end
        monkeypatch.undo()
        await replica.wait_applied(end, timeout=DEADLINE_S)
        await replica.wait_ready()
        assert (replica.state, status_of(replica, Sizes()).reason) == ("ready", "")
    assert "by a bug" not in parts.caplog.text
