"""Servers that go and come back, and networks that break, while clients read, write, scan and watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from kit.client.tcp_proxy import TcpProxy
from kit.deadlines import patience_s, within

import duramen
from duramen import aio
from duramen.client.model.results import Change
from duramen.client.table import Table
from duramen.server.roles.all_in_one import SingleServer as Server
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.identifiers import Offset

pytestmark = pytest.mark.embedded_log_only  # the client waits; over Kafka: test_kills_process.py

DEADLINE_S = 30
PARTITIONS = 3


class Restarting:
    """A server behind a proxy: clients keep one address while servers come and go behind it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server: Server | None = None
        self.proxy = TcpProxy(0)

    async def start(self) -> None:
        self.server = await Server.open(self.folder, port=0)
        self.proxy.target_port = self.server.port

    async def restart(self, *, cut: bool) -> None:
        """End the server and begin another; with `cut` its connections break before it knows."""
        assert self.server is not None
        if cut:
            self.proxy.swallow_replies = True
            await self.proxy.cut()
        await self.server.close()
        await self.start()
        self.proxy.swallow_replies = False


@pytest.fixture
async def restarting(tmp_path: Path) -> AsyncIterator[Restarting]:
    made = Restarting(tmp_path / "data")
    await made.start()
    await made.proxy.start()
    yield made
    await made.proxy.close()
    assert made.server is not None
    await made.server.close()


@pytest.fixture
async def flights(restarting: Restarting) -> AsyncIterator[Table]:
    database = await aio.connect(f"127.0.0.1:{restarting.proxy.port}", timeout=DEADLINE_S)
    yield await database.create_table("flights", partitions=PARTITIONS)
    await database.close()


async def test_every_call_gets_through(restarting: Restarting, flights: Table) -> None:
    """Under load, over three restarts, polite and rude: no call fails, and every counter counts exactly."""
    stop = asyncio.Event()
    counted = dict.fromkeys((b"n%d" % number for number in range(6)), 0)
    reads = 0

    async def count(key: bytes) -> None:
        while not stop.is_set():
            done = await flights.update(key, add=1)
            counted[key] += 1
            assert done.value == counted[key], "an update was lost, or applied twice"
            assert await flights.get(key) == b"%d" % counted[key]

    async def read() -> None:
        nonlocal reads
        while not stop.is_set():
            await flights.get_many(list(counted))
            async for _ in flights.scan():
                pass
            reads += 1

    tasks = [asyncio.ensure_future(work) for work in (*map(count, counted), read())]
    for cut in (False, True, True):
        before = dict(counted)
        async with within(DEADLINE_S):
            while any(counted[key] < before[key] + 5 for key in counted):  # noqa: ASYNC110 - others count
                await asyncio.sleep(0.001)
        await restarting.restart(cut=cut)
    stop.set()
    async with within(DEADLINE_S):
        await asyncio.gather(*tasks)
    assert await flights.get_many(list(counted)) == [b"%d" % number for number in counted.values()]
    assert reads > 0


async def stored(server: Server, table: Table) -> list[tuple[int, int, bytes]]:
    """Everything in the log: partition, offset, key."""
    topic = next(iter(server.data_plane.catalog.map.tables.values()))
    found: list[tuple[int, int, bytes]] = []
    for partition in range(topic.partitions):
        async for chunk in server.data_plane.log.read(topic.partition(partition), Offset(0), follow=False):
            for data in split_batches(chunk.data):
                batch = decode_batch(data)
                keys = batch.columns.keys
                found += [(partition, offset, key) for offset, key in zip(batch.offsets(), keys, strict=True)]
    return found


async def test_a_watch_goes_on_without_gap_or_duplicate(restarting: Restarting, flights: Table) -> None:
    seen: list[Change] = []

    async def watch() -> None:
        async with aclosing(flights.watch(start="earliest")) as changes:
            async for change in changes:
                seen.append(change)
                if change.key == b"the end":
                    return

    watching = asyncio.ensure_future(watch())
    for number in range(60):
        await flights.put(b"k%d" % number, b"v")
        if number % 20 == 19:
            await restarting.restart(cut=number == 39)
    # All partitions have been shown before the end: wait for that, then write it.
    async with within(DEADLINE_S):
        while len(seen) < 60:  # noqa: ASYNC110 - the watch does not signal
            await asyncio.sleep(0.001)
    await flights.put(b"the end", b"")
    async with within(DEADLINE_S):
        await watching
    assert restarting.server is not None
    shown = sorted((change.partition, change.offset, change.key) for change in seen)
    assert len(set(shown)) == len(shown), "a change came twice"
    in_log = await stored(restarting.server, flights)
    # A put whose reply was lost is in the log twice, and its second copy is no change.
    assert set(shown) <= set(in_log)
    assert [key for _, _, key in sorted(shown, key=lambda place: place[2])] == sorted({key for _, _, key in in_log}), (
        "a change is missing"
    )
    for partition in range(PARTITIONS):
        offsets = [change.offset for change in seen if change.partition == partition]
        assert offsets == sorted(offsets), "out of order"


async def test_a_watch_resumes_from_any_token(flights: Table) -> None:
    """Every change's token, also in the middle of a batch: what follows it is exactly what had not been shown."""
    await flights.put_many([(b"k%d" % number, b"v") for number in range(12)])
    seen: list[Change] = []
    async with within(DEADLINE_S):
        async with aclosing(flights.watch(start="earliest")) as changes:
            while len(seen) < 12:
                seen.append(await anext(changes))
        for place, change in enumerate(seen[:-1]):
            rest = {(later.partition, later.offset) for later in seen[place + 1 :]}
            async with aclosing(flights.watch(after=change.token)) as changes:
                found = {(c.partition, c.offset) for c in [await anext(changes) for _ in rest]}
            assert found == rest


async def test_a_watch_from_now_shows_nothing_older(flights: Table) -> None:
    await flights.put(b"old", b"v")
    async with aclosing(flights.watch()) as changes:
        waiting = asyncio.ensure_future(anext(changes))
        async with within(DEADLINE_S):
            while not waiting.done():
                await flights.put(b"new", b"v")
                await asyncio.wait({waiting}, timeout=0.01)
        assert (await waiting).key == b"new"


async def test_a_watch_waits_for_a_lost_server_until_its_timeout(restarting: Restarting, flights: Table) -> None:
    await flights.put(b"k", b"v")
    timeout = round(patience_s(1.0), 1)
    async with aclosing(flights.watch(start="earliest", timeout=timeout)) as changes:
        first = await anext(changes)
        await restarting.proxy.stop()
        async with within(DEADLINE_S):
            with pytest.raises(
                duramen.Disconnected, match=rf"waited up to {timeout:g} s; watch again with the last change"
            ):
                await anext(changes)
    await restarting.proxy.start()
    await flights.put(b"k", b"w")
    async with within(DEADLINE_S), aclosing(flights.watch(after=first.token)) as changes:
        assert (await anext(changes)).value == b"w"


async def test_a_dropped_table_ends_its_watch(restarting: Restarting, flights: Table) -> None:
    await flights.put(b"k", b"v")
    async with aclosing(flights.watch(start="earliest")) as changes:
        await anext(changes)
        waiting = asyncio.ensure_future(anext(changes))
        await flights.lookup.context.connection.drop_table("flights", timeout=DEADLINE_S)
        async with within(DEADLINE_S):
            with pytest.raises(duramen.TableNotFound, match="table 'flights' is gone"):
                await waiting


async def test_a_server_that_stays_away(restarting: Restarting, flights: Table) -> None:
    await flights.put(b"k", b"v")
    await restarting.proxy.stop()
    short = patience_s(0.5)
    async with within(DEADLINE_S):
        *reads, write = await asyncio.gather(
            flights.get(b"k", timeout=short),
            anext(flights.scan(timeout=short)),
            flights.describe(timeout=short),
            flights.put(b"k", b"w", timeout=short),
            return_exceptions=True,
        )
    assert [type(each) for each in reads] == [duramen.Disconnected] * 3
    assert isinstance(write, (duramen.Disconnected, duramen.WriteUnknown))
    await restarting.proxy.start()
    done = await flights.put(b"k", b"x")
    assert await flights.get_entry(b"k") == (b"x", done.offset, 0)


async def test_a_server_that_hears_and_does_not_answer(restarting: Restarting, flights: Table) -> None:
    await flights.put(b"k", b"v")
    restarting.proxy.swallow_replies = True
    async with within(DEADLINE_S):
        with pytest.raises(duramen.WriteUnknown):
            await flights.put(b"k", b"w", timeout=patience_s(0.5))
        # Disconnected: the calls last longer on a busy machine, and the client may notice the silence meanwhile.
        with pytest.raises((duramen.DeadlineExceeded, duramen.Disconnected)):
            await flights.get(b"k", timeout=patience_s(0.5))
    restarting.proxy.swallow_replies = False
    await restarting.proxy.cut()
    assert await flights.get(b"k", level="strong") in (b"v", b"w")
    done = await flights.put(b"k", b"x")
    assert await flights.get_entry(b"k", level="strong") == (b"x", done.offset, 0)
