"""The API, the same tests four ways: asynchronous and blocking, in this process and over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kit.client.four_ways import FOUR_WAYS, four_ways
from kit.deadlines import within
from kit.log.log_choice import url_of

import duramen
from log_tier.model.record import Operation

DEADLINE_S = 20


@pytest.fixture(params=FOUR_WAYS)
async def db(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with four_ways(request.param, tmp_path / "data", lambda: request.getfixturevalue("emptied_server")) as opened:
        yield opened


@pytest.fixture
async def table(db: Any) -> Any:
    return await db.create_table("flights", partitions=4)


async def collected(found: Any) -> list[Any]:
    return [item async for item in found]


async def test_how_much_of_its_log_a_table_keeps(db: Any) -> None:
    table = await db.create_table("flights", partitions=2, retention_ms=604_800_000)
    assert (await table.describe()).retention == (604_800_000, 0)
    changed = await db.set_retention("flights", retention_ms=86_400_000)
    assert (await db.describe_table("flights")).retention == changed == (86_400_000, 0)
    with pytest.raises(duramen.InvalidRequest, match="name what is to change"):
        await db.set_retention("flights")
    with pytest.raises(duramen.InvalidRequest, match="retention_ms is a whole number"):
        await db.set_retention("flights", retention_ms=1.5)
    with pytest.raises(duramen.InvalidRequest, match="retention_bytes is a whole number"):
        await db.create_table("more", retention_bytes=-1)
    with pytest.raises(duramen.InvalidRequest, match="set the retention where the topic is"):
        await db.create_table("orders", over="orders-v1", retention_ms=1)
    with pytest.raises(duramen.TableNotFound):
        await db.set_retention("more", retention_ms=1)


@pytest.mark.embedded_log_only
async def test_how_many_bytes_of_its_log_a_table_keeps(db: Any) -> None:
    await db.create_table("flights", retention_ms=604_800_000)
    changed = await db.set_retention("flights", retention_bytes=1 << 30)
    assert (changed.ms, changed.bytes) == (604_800_000, 1 << 30), "the other bound stays"
    assert (await db.describe_table("flights")).retention == changed


async def test_a_bound_that_the_log_cannot_keep_is_refused(db: Any, tmp_path: Path) -> None:
    if url_of(tmp_path) is None:
        pytest.skip("about a log in Kafka, which does not report sizes")
    with pytest.raises(duramen.InvalidRequest, match="does not report how large"):
        await db.create_table("flights", retention_bytes=1 << 30)
    assert await db.tables() == []
    await db.create_table("flights")
    with pytest.raises(duramen.InvalidRequest, match="does not report how large"):
        await db.set_retention("flights", retention_bytes=1 << 30)
    assert (await db.describe_table("flights")).retention == (0, 0)


async def test_put_and_get(table: Any) -> None:
    done = await table.put(b"UA1545", b"departed")
    assert (done.offset, done.value) == (0, None)
    assert await table.get(b"UA1545") == b"departed"
    assert await table.get(b"UA1545", after=done.token) == b"departed"
    assert await table.get(b"absent") is None
    entry = await table.get_entry(b"UA1545")
    assert entry == (b"departed", done.offset, 0)
    assert await table.get_entry(b"absent") is None
    await table.put(b"UA1545", b"")
    assert await table.get(b"UA1545") == b""
    await table.delete(b"UA1545")
    assert await table.get(b"UA1545") is None


@pytest.mark.parametrize("level", ["session", "eventual", "strong"])
async def test_levels(table: Any, level: str) -> None:
    done = await table.put(b"k", b"v")
    assert await table.get(b"k", level=level, after=done.token) == b"v"
    assert await table.get_many([b"k", b"no"], level=level, after=done.token) == [b"v", None]
    assert await collected(table.scan(level=level, after=done.token)) == [(b"k", b"v")]


async def test_conditions(table: Any) -> None:
    done = await table.put(b"k", b"1", if_absent=True)
    with pytest.raises(duramen.ConditionFailed, match=f"the key has version {done.offset}") as caught:
        await table.put(b"k", b"2", if_absent=True)
    assert caught.value.fields["actual"] == done.offset
    second = await table.put(b"k", b"2", if_version=done.offset)
    with pytest.raises(duramen.ConditionFailed) as caught:
        await table.delete(b"k", if_version=done.offset)
    assert caught.value.fields["actual"] == second.offset
    await table.delete(b"k", if_present=True)
    with pytest.raises(duramen.ConditionFailed, match="absent") as caught:
        await table.put(b"k", b"3", if_present=True)
    assert caught.value.fields["actual"] == -1
    await table.put(b"k", b"4", if_version=-1)
    assert await table.get(b"k") == b"4"


async def test_updates(table: Any) -> None:
    values = [
        (await table.update(b"n", **how)).value
        for how in ({"add": 5}, {"multiply": 3}, {"min": 7}, {"max": 9}, {"add": 0.5}, {"add": -10})
    ]
    assert values == [5, 15, 7, 9, 9.5, -0.5]
    assert await table.get(b"n") == b"-0.5"
    assert (await table.update(b"text", append=b"ab")).value == 2
    assert (await table.update(b"text", append=b"cde")).value == 5
    with pytest.raises(duramen.NotANumber) as caught:
        await table.update(b"text", add=1)
    assert int(caught.value.fields["offset"]) >= 0
    await table.put(b"big", b"%d" % ((1 << 63) - 1))
    with pytest.raises(duramen.NumberOverflow):
        await table.update(b"big", add=1)
    assert (await table.get(b"text"), await table.get(b"big")) == (b"abcde", b"%d" % ((1 << 63) - 1))


async def test_many(table: Any) -> None:
    pairs = {b"k%04d" % number: b"v%d" % number for number in range(3000)}
    done = await table.put_many(pairs)
    assert done.records == 3000
    assert len(done.offsets) == 4
    keys = [*pairs, b"absent", *pairs]
    assert await table.get_many(keys, after=done.token) == [pairs.get(key) for key in keys]
    assert await table.get_many([]) == []
    assert (await table.put_many([])).records == 0
    assert (await table.put_many((key, b"again") for key in pairs)).records == 3000
    assert set(await table.get_many(pairs)) == {b"again"}


async def test_scans(table: Any) -> None:
    model = {b"%s%03d" % (stem, number): b"v" for stem in (b"a", b"b", b"b\xff") for number in range(150)}
    await table.put_many(model)
    ordered = sorted(model.items())
    assert await collected(table.scan()) == ordered
    assert await collected(table.scan(reverse=True)) == ordered[::-1]
    assert await collected(table.scan(prefix=b"b")) == [pair for pair in ordered if pair[0].startswith(b"b")]
    assert await collected(table.scan(start=b"a010", end=b"a020")) == [p for p in ordered if b"a010" <= p[0] < b"a020"]
    assert await collected(table.scan(limit=7, reverse=True)) == ordered[::-1][:7]
    assert await collected(table.scan(limit=0)) == []
    assert await collected(table.scan(end=b"")) == []
    assert await collected(table.scan(start=b"c", end=b"a")) == []
    assert await collected(table.scan(prefix=b"")) == ordered


async def test_atomic_batches(table: Any) -> None:
    batch = table.batch()
    batch.put(b"{u}.name", b"Ann").put(b"{u}.seats", b"3").update(b"{u}.seats", add=2).delete(b"{u}.gone")
    assert len(batch) == 4
    done = await batch.commit()
    assert [one.offset for one in done] == [0, 1, 2, 3]
    assert [one.value for one in done] == [None, None, 5, None]
    failing = table.batch()
    failing.put(b"{u}.name", b"Bob")
    failing.put(b"{u}.seats", b"0", if_version=done[1].offset)
    with pytest.raises(duramen.ConditionFailed) as caught:
        await failing.commit()
    assert caught.value.fields["actual"] == done[2].offset
    assert await table.get_many([b"{u}.name", b"{u}.seats"]) == [b"Ann", b"5"]
    with pytest.raises(duramen.InvalidRequest, match="committed already"):
        await failing.commit()
    with pytest.raises(duramen.InvalidRequest, match="begin another one"):
        failing.put(b"{u}.more", b"")
    assert await table.batch().commit() == []


async def test_watch(table: Any) -> None:
    await table.put(b"k", b"1")
    await table.update(b"n", add=5)
    with pytest.raises(duramen.ConditionFailed):
        await table.put(b"k", b"no", if_absent=True)
    done = await table.delete(b"k")
    seen: dict[bytes, list[tuple[Operation, bytes | None]]] = {}
    last = None
    async with within(DEADLINE_S), aclosing(table.watch(start="earliest")) as changes:
        async for change in changes:
            seen.setdefault(change.key, []).append((change.operation, change.value))
            last = change
            if sum(map(len, seen.values())) == 3:
                break
    assert seen == {b"k": [(Operation.PUT, b"1"), (Operation.DELETE, None)], b"n": [(Operation.ADD, b"5")]}
    assert last is not None
    await table.put(b"k", b"2")
    async with within(DEADLINE_S), aclosing(table.watch(after=last.token)) as changes:
        following = await anext(changes)
    assert (following.key, following.value, following.offset) == (b"k", b"2", done.offset + 1)


async def test_a_watch_that_has_begun_shows_all_that_follows(table: Any) -> None:
    """From "now": the position is fixed when the call returns, and not when the first change is asked for."""
    await table.put(b"before", b"v")
    watch = await table.watch()
    for number in range(20):
        await table.put(b"k%d" % number, b"v")
    async with within(DEADLINE_S), aclosing(watch) as changes:
        found = {(await anext(changes)).key for _ in range(20)}
    assert found == {b"k%d" % number for number in range(20)}


async def test_expiry(table: Any) -> None:
    await table.put(b"soon", b"v", ttl=0.05)
    await table.put(b"kept", b"v", ttl=3600)
    await table.put(b"kept", b"w", keep_ttl=True)
    await table.put(b"counted", b"1", ttl=3600)
    await table.update(b"counted", add=1)
    for key in (b"kept", b"counted"):
        assert (await table.get_entry(key)).expires_at_ms > 0
    await table.put(b"kept", b"x")
    assert (await table.get_entry(b"kept")).expires_at_ms == 0
    await table.put_many([(b"many", b"v")], ttl=3600)
    assert (await table.get_entry(b"many")).expires_at_ms > 0
    async with within(DEADLINE_S):
        while await table.get(b"soon") is not None:  # noqa: ASYNC110 - only time brings it about
            await asyncio.sleep(0.01)
    assert await table.get_entry(b"soon") is None
    assert b"soon" not in dict(await collected(table.scan()))


async def test_tables(db: Any, table: Any) -> None:
    assert [(found.name, found.partitions) for found in await db.tables()] == [("flights", 4)]
    with pytest.raises(duramen.TableExists, match="there is a table 'flights' already"):
        await db.create_table("flights")
    same = await db.create_table("flights", if_missing=True)
    await same.put(b"k", b"v")
    assert await db.table("flights").get(b"k") == b"v"
    description = await table.describe()
    assert sum(part.keys for part in description.partitions) == 1
    assert description == await db.describe_table("flights")
    await db.drop_table("flights")
    for _ in range(2):
        with pytest.raises(duramen.TableNotFound, match="flights"):
            await table.get(b"k")
    with pytest.raises(duramen.TableNotFound, match="no table 'flights'; the tables are: none"):
        await db.drop_table("flights")
    again = await db.create_table("flights", partitions=9)
    await again.put(b"k", b"new")
    assert await table.get(b"k") == b"new", "the old handle finds the new table"


async def test_tokens(db: Any, table: Any) -> None:
    done = await table.put(b"k", b"v")
    token = db.token()
    db.merge_token(token)
    db.merge_token(done.token)
    assert db.token() == token
    assert await table.get(b"k", after=token) == b"v"
    assert await table.get(b"k", after=await table.end_token()) == b"v"


async def test_the_writer_goes_on_where_it_was(table: Any) -> None:
    rows = [(b"k%03d" % number, b"v%d" % number) for number in range(500)]
    async with table.writer("file of today") as writer:
        await writer.put_rows(rows[:300])
        await writer.flush()
        assert (writer.written, writer.skipped) == (300, 0)
    async with table.writer("file of today") as writer:
        await writer.put_rows(rows)
        done = await writer.flush()
        assert (writer.written, writer.skipped) == (200, 300)
    assert await table.get_many([key for key, _ in rows], after=done.token) == [value for _, value in rows]


async def test_after_close(db: Any, table: Any) -> None:
    await table.put(b"k", b"v")
    assert await table.get(b"k") == b"v"
    await db.close()
    for call in (
        lambda: table.get(b"k"),
        lambda: table.put(b"k", b"v"),
        lambda: table.get_many([b"k"]),
        lambda: table.put_many([(b"k", b"v")]),
        lambda: collected(table.scan()),
        lambda: collected(table.watch()),
        lambda: db.tables(),
        lambda: db.create_table("more"),
    ):
        with pytest.raises(duramen.DatabaseClosed, match="closed"):
            await call()
    await db.close()
