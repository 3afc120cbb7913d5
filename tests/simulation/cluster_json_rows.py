"""Rows as JSON in a simulated cluster, next to typed ones: clients of its Redis endpoints, and callers of commands."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final

from duramen import aio
from duramen.cli.data.table_text import record_text
from duramen.testing.machine.resp_words import RawError
from duramen.testing.machine.simulated_wire import WireCut
from log_tier.model.errors import DuramenError
from simulation.book import Broken
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import ClusterWorld
from simulation.json_row_calls import CommandRowCaller, WireRowCaller
from simulation.kv_row_calls import KVRowCaller
from simulation.trust_turns import TARGETS

__all__ = ["check_json_rows", "put_by_commands", "put_by_kv", "write_json_rows"]

_PAUSE_S: Final = 1.0
_CALLS: Final = 10
"""So many before a client connects anew, perhaps to another server."""


async def write_json_rows(world: ClusterWorld, table: str, stop: asyncio.Event) -> None:
    """A client of the Redis protocol, at one endpoint after the other, until `stop` is set. Raises `Broken`."""
    chance = random.Random(f"rows as JSON {world.plan.seed}")
    while not stop.is_set():
        with suppress(WireCut):
            client = await world.connected(chance)
            try:
                (reply,) = await client.call([(b"SELECT", table.encode())])
                for _ in range(0 if isinstance(reply, RawError) else _CALLS):
                    if stop.is_set():
                        break
                    await WireRowCaller(world, client, table, chance).write_some()
                    await asyncio.sleep(chance.random() * _PAUSE_S)
            finally:
                client.close()
        await asyncio.sleep(chance.random() * _PAUSE_S)


async def put_by_commands(world: ClusterWorld, table: str, stop: asyncio.Event) -> None:
    """Commands, each of which connects for itself, until `stop` is set. Raises `Broken`."""
    chance = random.Random(f"commands with rows {world.plan.seed}")
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * _PAUSE_S)
        with suppress(DuramenError):
            async with await aio.connect(f"{chance.choice(TARGETS)}:7070", timeout=1.0, direct=False) as database:
                words = record_text(await database.definition(table), lambda _: None)
                await CommandRowCaller(world, database.table(table), words, chance).write()


async def put_by_kv(world: ClusterWorld, table: str, stop: asyncio.Event) -> None:
    """A program without a client of ours, at any of the servers, until `stop` is set. Raises `Broken`."""
    chance = random.Random(f"rows by KV {world.plan.seed}")
    caller = KVRowCaller(world, table, chance)
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * _PAUSE_S)
        await caller.write(TARGETS)


async def check_json_rows(world: ClusterWorld, server: str, table: str, chance: random.Random) -> None:
    """When nothing is at fault: every kind of call is answered as it should be, by one server. Raises `Broken`."""
    client = await world.connected(chance, server)
    try:
        (reply,) = await client.call([(b"SELECT", table.encode())])
        if isinstance(reply, RawError):
            raise Broken("fitting", f"the endpoint of {server} does not select {table}: {reply.text}")
        await WireRowCaller(world, client, table, chance).write_each()
    except WireCut as error:
        raise Broken("fitting", f"the endpoint of {server} cut a connection, and nothing is at fault") from error
    finally:
        client.close()
    async with await aio.connect(f"{server}:7070", timeout=ASK_S, direct=False) as database:
        words = record_text(await database.definition(table), lambda _: None)
        await CommandRowCaller(world, database.table(table), words, chance).write(sure=True)
    for _ in range(2):
        await KVRowCaller(world, table, chance).write([server], sure=True)
