"""Embedded: a blocking database whose disk fails, and what was acknowledged is there after each restart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s

import duramen
from duramen import aio, blocking, testing
from router.data.local_data import LocalData
from router.data.requests import ReadResult

pytestmark = pytest.mark.embedded_log_only


@pytest.fixture
def embedded() -> Iterator[testing.Embedded]:
    with testing.Embedded() as opened:
        yield opened


def written_until_refused(table: blocking.Table, most: int = 500) -> list[bytes]:
    """The keys that were acknowledged before the first write that was not."""
    keys: list[bytes] = []
    for number in range(most):
        try:
            table.put(b"key-%d" % number, bytes(1000))
        except (duramen.Unavailable, duramen.WriteUnknown, duramen.DuramenError):
            return keys
        keys.append(b"key-%d" % number)
    return keys


def test_it_is_a_database(embedded: testing.Embedded) -> None:
    table = embedded.database.create_table("orders", partitions=2)
    done = table.put(b"key", b"value")
    assert table.get(b"key", after=done.token) == b"value"


def test_what_was_acknowledged_survives_a_restart(embedded: testing.Embedded) -> None:
    old = embedded.database
    old.create_table("orders").put(b"key", b"value")
    for keep in (True, False):
        assert embedded.restart(keep_indexes=keep).table("orders").get(b"key") == b"value"
    assert embedded.database is not old
    with pytest.raises(duramen.DatabaseClosed):
        old.table("orders").get(b"key", level="strong")


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_survives_a_loss_of_power(seed: int) -> None:
    with testing.Embedded(seed=seed, timeout=5) as embedded:
        table = embedded.database.create_table("orders", partitions=2)
        embedded.faults.lose_power(after_changes=50)
        keys = written_until_refused(table)
        assert 0 < len(keys) < 500
        assert embedded.faults.is_dead
        table = embedded.restart().table("orders")
        assert table.get_many(keys) == [bytes(1000)] * len(keys)


def test_a_full_disk(embedded: testing.Embedded) -> None:
    table = embedded.database.create_table("orders", partitions=1)
    embedded.faults.disk_full()
    with pytest.raises(duramen.DiskFull):
        table.put_many([(b"key-%d" % number, bytes(100_000)) for number in range(50)])
    embedded.faults.disk_has_room()
    table.put(b"key", b"value")
    assert embedded.restart().table("orders").get(b"key") == b"value"


def test_a_failed_sync_stops_the_log_until_a_restart(embedded: testing.Embedded) -> None:
    table = embedded.database.create_table("orders", partitions=1)
    embedded.faults.fail_next_sync()
    with pytest.raises((duramen.WriteUnknown, duramen.LogStopped)):
        table.put(b"key", b"value")
    with pytest.raises(duramen.LogStopped):
        table.put(b"key", b"value")
    embedded.restart().table("orders").put(b"key", b"value")


def test_a_failed_write(embedded: testing.Embedded) -> None:
    table = embedded.database.create_table("orders", partitions=1)
    embedded.faults.fail_next_write()
    assert len(written_until_refused(table)) < 500


def test_two_at_once_do_not_share_anything() -> None:
    with testing.Embedded() as one, testing.Embedded() as other:
        first, second = one.database.create_table("orders"), other.database.create_table("orders")
        one.faults.lose_power()
        with pytest.raises(duramen.DuramenError):
            first.put(b"key", b"one")
        second.put(b"key", b"other")
        assert second.get(b"key") == b"other"


def test_a_thread_writes_while_the_process_dies(embedded: testing.Embedded) -> None:
    """Callers learn what became of their calls, and none of them hangs."""
    table = embedded.database.create_table("orders", partitions=4)
    begun, acknowledged = threading.Event(), list[bytes]()

    def write() -> None:
        for number in range(1_000_000):
            try:
                table.put(b"key-%d" % number, b"value")
            except duramen.DuramenError:
                return
            acknowledged.append(b"key-%d" % number)
            if number == 20:
                begun.set()

    writing = threading.Thread(target=write)
    writing.start()
    assert begun.wait(patience_s(30))
    database = embedded.restart()
    writing.join(patience_s(30))
    assert not writing.is_alive()
    assert database.table("orders").get_many(acknowledged) == [b"value"] * len(acknowledged)


def test_after_the_end_everything_says_so_and_nothing_is_left() -> None:
    embedded = testing.Embedded()
    with pytest.raises(testing.ClusterEnded, match="use `with"):
        _ = embedded.database
    with embedded:
        assert embedded._machine is not None
        folder = Path(embedded._machine.folder)
        database = embedded.database
    with pytest.raises(duramen.DatabaseClosed):
        database.tables()
    with pytest.raises(testing.ClusterEnded):
        _ = embedded.faults
    with pytest.raises(testing.ClusterEnded):
        embedded.restart()
    assert not folder.exists()


@pytest.mark.parametrize("wrong", [-1, -1000])
def test_what_cannot_be_is_refused(embedded: testing.Embedded, wrong: int) -> None:
    with pytest.raises(ValueError, match=str(wrong)):
        embedded.faults.disk_full(wrong)
    with pytest.raises(ValueError, match=str(wrong)):
        embedded.faults.lose_power(after_changes=wrong)


# --- in virtual time


async def write_on(table: aio.Table, keys: list[bytes]) -> None:
    for number in range(500):
        await table.put(b"key-%d" % number, b"value")
        keys.append(b"key-%d" % number)


@testing.simulated(seeds=3)
async def test_virtual_what_was_acknowledged_survives_a_loss_of_power() -> None:
    async with testing.AsyncEmbedded(timeout=5) as embedded:
        table = await embedded.database.create_table("orders", partitions=2)
        embedded.faults.lose_power(after_changes=40)
        keys: list[bytes] = []
        with pytest.raises(duramen.DuramenError):
            await write_on(table, keys)
        table = (await embedded.restart()).table("orders")
        assert len(keys) > 1
        assert await table.get_many(keys) == [b"value"] * len(keys)


@testing.simulated(seeds=5)
async def test_virtual_every_answer_is_judged_through_all_lives() -> None:
    async with testing.AsyncEmbedded(timeout=5) as embedded:
        await embedded.database.create_table("orders", partitions=2)
        for life in range(4):
            embedded.faults.lose_power(after_changes=15 + life)
            with suppress(duramen.DuramenError):
                await write_on(embedded.database.table("orders"), [])
            table = (await embedded.restart()).table("orders")
            await table.update(b"count", add=1)
            assert [key async for key, _ in table.scan(limit=3)]
        judged = await embedded.check()
        assert judged.tables == 1
        assert judged.calls > 20


def test_virtual_a_lie_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = LocalData.read

    async def read(self: LocalData, parts: Any, **how: Any) -> Any:
        results = await inner(self, parts, **how)
        return [each._replace(values=[b"a lie"]) if isinstance(each, ReadResult) else each for each in results]

    monkeypatch.setattr(LocalData, "read", read)

    async def main() -> None:
        async with testing.AsyncEmbedded() as embedded:
            table = await embedded.database.create_table("orders")
            await table.put(b"key", b"value")
            await table.get(b"key")
            await embedded.check()

    with pytest.raises(testing.PromiseBroken, match=r"I4 .*read key = 'a lie'"):
        testing.run(main)


@testing.simulated(limit_s=5000)
async def test_virtual_expiry_is_by_virtual_time() -> None:
    async with testing.AsyncEmbedded() as embedded:
        table = await embedded.database.create_table("carts", partitions=1)
        await table.put(b"cart", b"full", ttl=3600)
        await table.put(b"other", b"key")
        assert await table.get(b"cart") == b"full"

        await asyncio.sleep(3599)
        assert await table.get(b"cart") == b"full"
        await asyncio.sleep(60)
        assert await table.get(b"cart") is None


@testing.simulated
async def test_virtual_two_at_once() -> None:
    async with testing.AsyncEmbedded() as one, testing.AsyncEmbedded() as other:
        first = await one.database.create_table("orders")
        second = await other.database.create_table("orders")
        one.faults.lose_power()
        with pytest.raises(duramen.DuramenError):
            await first.put(b"key", b"one")
        await second.put(b"key", b"other")


def test_virtual_and_not_in_real_time() -> None:

    with pytest.raises(testing.NotSimulated):
        asyncio.run(testing.AsyncEmbedded().__aenter__())
