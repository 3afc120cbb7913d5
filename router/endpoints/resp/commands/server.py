"""The commands about the server: INFO, COMMAND, DBSIZE, WAIT."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.sized_work import Turn
from log_tier.model.errors import DeadlineExceeded, DuramenError
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId
from router.data.requests import PartitionDescription
from router.endpoints.resp.command_descriptions import described, documented
from router.endpoints.resp.command_spec import CommandSpec, async_command, sync_command
from router.endpoints.resp.commands.connection import COMPATIBLE_WITH
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.data.served_tables import DEFAULT_TABLE, NUMBERS, ServedTable
from router.endpoints.resp.wire.arguments import SYNTAX, check_options, integer, text_of
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S
from router.endpoints.resp.wire.replies import Problem
from router.membership.member import Member

__all__ = ["SPECS", "command", "dbsize", "info", "wait"]

_COMMAND_WORDS: Final = {"COUNT": 2, "INFO": -2, "DOCS": -2, "LIST": -2, "GETKEYS": -4}
"""What may follow COMMAND, with its arity."""

_SECTIONS: Final = ("server", "clients", "memory", "persistence", "stats", "replication", "cpu", "cluster", "keyspace")

# Names after COMMAND INFO: its answer has a few hundred bytes for each, and takes 30 µs.
_NAMES_MAX: Final = 256

# Pauses between two questions for counts that are not there yet, or too old.
_COUNT_PAUSE_S: Final = 0.02
_COUNT_PAUSE_MAX_S: Final = 0.25

# To count the keys of a partition costs as much as to read so many of them, and its statistics so many.
_COUNT_ITEMS: Final = 5
_STATISTICS_ITEMS: Final = 20

# How often a WAIT that has nobody to hear from looks whether its connection has ended.
_ALONE_PAUSE_S: Final = 0.05


async def info(client: CommandContext, args: Sequence[bytes]) -> str:
    """INFO [section …]"""
    check_options(args)
    wanted = {text_of(section).lower() for section in args} or {"default"}
    if wanted & {"default", "all", "everything"}:
        wanted |= set(_SECTIONS)
    texts: list[str] = []
    for section in _SECTIONS:
        if section in wanted:
            lines = await _keyspace(client) if section == "keyspace" else _section(client, section)
            texts.append(
                f"# {section.capitalize()}\r\n" + "".join(f"{key}:{value}\r\n" for key, value in lines.items())
            )
    return "\r\n".join(texts)


def _section(client: CommandContext, section: str) -> dict[str, object]:
    server = client.server
    if section == "server":
        uptime = int(server.loop.time() - server.opened_s)
        return {
            "redis_version": COMPATIBLE_WITH,
            "redis_mode": "cluster" if server.clustered else "standalone",
            "server_name": "duramen",
            "os": platform.platform(),
            "arch_bits": 64,
            "process_id": os.getpid(),
            "run_id": server.run_id,
            "tcp_port": server.port,
            "uptime_in_seconds": uptime,
            "uptime_in_days": uptime // 86_400,
        }
    if section == "clients":
        return {"connected_clients": len(server.clients), "maxclients": server.connections_max, "blocked_clients": 0}
    if section == "memory":
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"used_memory_peak": used, "used_memory_rss": used, "maxmemory": 0, "maxmemory_policy": "noeviction"}
    if section == "persistence":
        # Every write is on stable storage before its reply.
        return {"loading": 0, "aof_enabled": 1, "aof_last_write_status": "ok"}
    if section == "stats":
        return {
            "total_connections_received": server.connections_taken,
            "total_commands_processed": server.commands_done
            + sum(each.commands for each in server.clients.values())
            + (server.pages.tally.total() if server.pages is not None else 0),
            "rejected_connections": server.connections_refused,
            "dropped_connections": server.connections_dropped,
            "write_batches": server.writer.batches,
            "write_records": server.writer.records,
            "pubsub_channels": server.notifications.channels,
            "pubsub_patterns": server.notifications.patterns,
        }
    if section == "replication":
        return {"role": "master", "connected_slaves": 0}
    if section == "cpu":
        used_cpu = resource.getrusage(resource.RUSAGE_SELF)
        return {"used_cpu_sys": f"{used_cpu.ru_stime:.6f}", "used_cpu_user": f"{used_cpu.ru_utime:.6f}"}
    return {"cluster_enabled": int(server.clustered)}


async def _keyspace(client: CommandContext) -> dict[str, object]:
    """The numbered tables that were used so far."""
    lines: dict[str, object] = {}
    for number in range(NUMBERS):
        table = client.server.tables.at_hand(DEFAULT_TABLE if number == 0 else f"db{number}")
        if table is not None and client.reads_all(table.ref.name):
            count = await _count(client, table)
            if count:
                lines[f"db{number}"] = f"keys={count},expires={await _expiring(table)},avg_ttl=0"
    return lines


async def dbsize(client: CommandContext, args: Sequence[bytes]) -> int:
    """DBSIZE: an exact count of what is here; of a table on several nodes, what the nodes say."""
    return await _count(client, await client.current_table())


async def _count(client: CommandContext, table: ServedTable) -> int:
    """The keys of what is counted here, with everything that this server had acknowledged when the command came."""
    table.look()
    seen = tuple(table.seen)
    count, others = 0, list[Partition]()
    turn = Turn()
    for partition in client.server.own_partitions(table):
        if turn.is_full(_COUNT_ITEMS):
            await turn.end()
        replica = table.replicas[partition]
        if replica is None:
            others.append(partition)
            continue
        if replica.index.applied < seen[partition]:
            await replica.wait_applied(seen[partition], timeout=REQUEST_TIMEOUT_S)
        count += replica.index.count()
    return count + (await _count_of_others(client, table, others, seen) if others else 0)


async def _count_of_others(
    client: CommandContext, table: ServedTable, partitions: Sequence[Partition], seen: Sequence[Offset]
) -> int:
    """The keys of partitions that no replica here can count, as the nodes report them.

    Of a replica that still replays its log, or that lags behind `seen`, another report is waited for. Counts of
    other nodes are about a second old.
    """
    backoff = Backoff(_COUNT_PAUSE_S, _COUNT_PAUSE_MAX_S, deadline_s=client.server.loop.time() + REQUEST_TIMEOUT_S)
    while True:
        described = await client.server.connection.describe_table(table.ref.name, timeout=REQUEST_TIMEOUT_S)
        reports = [described.partitions[partition] for partition in partitions]
        late = [each for each in reports if not _can_count(each, seen[each.partition])]
        if not late:
            return sum(each.keys for each in reports)
        if not await backoff.pause():
            first = late[0]
            raise Problem(
                f"TRYAGAIN partition {first.partition} of {table.ref.name} cannot be counted: its replica is "
                f"{first.state} at offset {first.applied}, and {seen[first.partition]} was acknowledged here"
            )


def _can_count(report: PartitionDescription, floor: Offset) -> bool:
    return report.state in ("ready", "behind") and report.applied >= floor


async def _expiring(table: ServedTable) -> int:
    count = 0
    turn = Turn()
    for replica in tuple(table.replicas):
        if replica is not None:
            with suppress(DuramenError):  # it was closed meanwhile, with its table or for another one
                count += replica.index.statistics().expiries
        if turn.is_full(_STATISTICS_ITEMS):
            await turn.end()
    return count


async def wait(client: CommandContext, args: Sequence[bytes]) -> int:
    """WAIT replicas milliseconds: how many replicas, without the first, have applied what this server acknowledged.

    WAIT does not check stable storage: the server answered each write only when the log held it there.
    """
    wanted, timeout_ms = integer(args[0]), integer(args[1])
    if timeout_ms < 0:
        raise Problem("ERR timeout is negative")
    table = await client.current_table()
    timeout = timeout_ms / 1000 if timeout_ms else REQUEST_TIMEOUT_S
    waiting = _Waiting(client, table, tuple(table.seen))  # of now: WAIT ignores what other clients write meanwhile
    with suppress(DeadlineExceeded):
        await waiting.until(wanted, timeout=timeout)
    return waiting.reached()


class _Waiting:
    """How many further replicas have applied the offsets of a table."""

    def __init__(self, client: CommandContext, table: ServedTable, offsets: Sequence[Offset]) -> None:
        self._client = client
        self._membership = client.server.membership
        self._sought = [
            (PartitionId(table.ref.id, Partition(number)), offset)
            for number, offset in enumerate(offsets)
            if offset != NOTHING
        ]

    def reached(self) -> int:
        """The fewest of all partitions that were written. O(partitions × nodes)."""
        if self._membership is None:
            return 0
        members = self._membership.members.values()
        counts = [_applied_by(members, *sought) for sought in self._sought]
        return max(0, min(counts, default=len(members)) - 1)

    async def until(self, wanted: int, *, timeout: float) -> None:
        """Return when `wanted` have, or the connection has ended. Raises `DeadlineExceeded`.

        Each report of a node is looked at. What was reached is not looked at again, so a look costs what is new.
        """
        if wanted <= 0:
            return
        if self._membership is None:
            await self._alone(timeout)
            return
        membership, left = self._membership, list(self._sought)

        def done() -> bool:
            members = membership.members.values()
            while left and _applied_by(members, *left[-1]) > wanted:
                left.pop()
            return self._client.closing or not (left or (not self._sought and len(members) <= wanted))

        await membership.wait_for(done, timeout=timeout)

    async def _alone(self, timeout: float) -> None:
        """There is no other replica, and none will come."""
        loop = self._client.server.loop
        ends_s = loop.time() + timeout
        while not self._client.closing and (left_s := ends_s - loop.time()) > 0:  # noqa: ASYNC110 - closing is a plain flag
            await asyncio.sleep(min(left_s, _ALONE_PAUSE_S))


def _applied_by(members: Collection[Member], partition: PartitionId, offset: Offset) -> int:
    views = (member.view.replicas.get(partition) for member in members)
    return sum(view is not None and view.applied >= offset for view in views)


# --- COMMAND


def command(client: CommandContext, args: Sequence[bytes]) -> Any:
    """COMMAND | COMMAND COUNT | INFO [name …] | DOCS [name …] | LIST | GETKEYS command …"""
    commands = client.server.commands
    if not args:
        return [described(spec) for spec in commands.values()]
    subcommand = text_of(args[0]).upper()
    if subcommand == "GETKEYS":
        return _keys_of(commands, args[1:])
    if len(args) > _NAMES_MAX + 1:
        raise Problem(f"ERR COMMAND {subcommand} takes at most {_NAMES_MAX} names, not {len(args) - 1}")
    names = [text_of(name).lower() for name in args[1:]]
    if subcommand == "COUNT":
        return len(commands)
    if subcommand == "INFO":
        return [_information(commands, name) for name in names or commands]
    if subcommand == "DOCS":
        return {name: documented(commands[name]) for name in names or commands if name in commands}
    if names:
        raise SYNTAX
    return list(commands)


def _information(commands: Mapping[str, CommandSpec], name: str) -> list[Any] | None:
    """Of a command, or of a subcommand as `client|list`."""
    spec = commands.get(name.partition("|")[0])
    if spec is None:
        return None
    report = described(spec)
    return report if name == spec.name else next((each for each in report[-1] if each[0] == name), None)


def _keys_of(commands: Mapping[str, CommandSpec], words: Sequence[bytes]) -> list[bytes]:
    spec = commands.get(text_of(words[0]).lower()) if words else None
    if spec is None:
        raise Problem("ERR Invalid command specified")
    if not spec.fits(len(words)):
        raise Problem("ERR Invalid number of arguments specified for command")
    keys = spec.keys(words)
    if not keys:
        raise Problem("ERR The command has no key arguments")
    return keys if type(keys) is list else list(keys)


SPECS: Final = (
    sync_command("command", -1, command, summary="About commands.", words=_COMMAND_WORDS),
    async_command("info", -1, info, summary="Tells how the server is."),
    async_command("dbsize", 1, dbsize, "readonly", summary="Counts the keys of the table."),
    async_command("wait", 3, wait, summary="Waits for replicas to apply what was written."),
)
"""The commands of this module."""
