"""The last commands of the catalog's log, as people read them: what changed, and when.

The catalog does not know who sent a command; the audit does, by the versions between which a call changed something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import fields
from functools import partial
from typing import Any, Final

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import COMMANDS, Command, CreateTable, StartJob, parse_command
from log_tier.concurrency.sized_work import run_sized
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import place_of, split_batches
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Log
from log_tier.privacy.masked_url import mask_url
from log_tier.tally.audit_note import AuditNote
from router.proto import admin_pb2 as pb

__all__ = ["LIMIT_MAX", "catalog_changes", "describe_command"]

_LIMIT: Final = 100
LIMIT_MAX: Final = 500
"""Of one answer. A command has some hundred bytes; one of a job over many partitions up to 4 MiB."""

_DETAIL_MAX: Final = 400

# To read so many bytes of the catalog's log costs as much as one key of a read.
_BYTES_OF_ITEM: Final = 30

_NAMES: Final[Mapping[type[Command], str]] = {kind: name for name, kind in COMMANDS.items()}

_TEXTS: Final = frozenset(
    {"address", "grant", "grants", "kind", "name", "note", "over", "partitioner", "role", "subject", "token"}
)
"""Fields whose text is shown: one that is added to a command is hidden until it is listed here. A `token` is its
id, which is no secret."""

_ELSEWHERE: Final = frozenset({"identity", "job", "node", "seen", "table", "task", "user"})


async def catalog_changes(catalog: Catalog, log: Log, request: pb.AdminChangesRequest) -> pb.AdminChanges:
    """The commands that a request asks for. One read of at most `LIMIT_MAX` records of the catalog's log.

    Raises what the log raises.
    """
    cluster = await catalog.refresh()
    place = catalog.topic.partition(Partition(0))
    earliest = (await log.bounds(place)).earliest
    end = min(request.before, cluster.version + 1) if request.HasField("before") else cluster.version + 1
    limit = min(request.limit or _LIMIT, LIMIT_MAX)
    begin = max(earliest, end - limit)
    found: list[pb.AdminCommand] = []
    if begin < end:
        async with aclosing(log.read(place, Offset(begin), follow=False)) as chunks:
            async for chunk in chunks:
                parsed = partial(_parsed, cluster, chunk.data, place, begin, end)
                found += await run_sized(len(chunk.data) // _BYTES_OF_ITEM, parsed)
                if found and found[-1].offset >= end - 1:
                    break
    kept = [each for each in found if each.time_ms >= request.since_ms]
    return pb.AdminChanges(commands=kept, more=begin > earliest and len(kept) == len(found), version=cluster.version)


def _parsed(cluster: ClusterMap, chunk: bytes, partition: PartitionId, begin: int, end: int) -> list[pb.AdminCommand]:
    place = place_of(partition)
    names: dict[TableId, str] = {}
    found: list[pb.AdminCommand] = []
    for data in split_batches(chunk):
        batch = decode_batch(data, place)
        columns = zip(batch.offsets(), batch.columns.keys, batch.columns.values, strict=True)
        for offset, key, value in columns:
            if not begin <= offset < end:
                continue
            command_id, command = parse_command(key, value)  # the map was folded of it
            if isinstance(command, CreateTable):
                names[command.table] = command.name
            decision = cluster.decisions.get(command_id)
            described = describe_command(command, cluster, names)
            described.offset, described.time_ms = offset, batch.header.timestamp_ms
            described.rejected = "" if decision is None else decision.rejection
            if isinstance(command, StartJob) and not described.rejected:
                described.job = offset
            found.append(described)
    return found


def describe_command(command: Command, cluster: ClusterMap, names: Mapping[TableId, str]) -> pb.AdminCommand:
    """A command without its place. `names`: of tables that are not there any more, by their ids. Pure."""
    made = pb.AdminCommand(command=_NAMES[type(command)])
    snapshot = getattr(command, "snapshot", None)
    about = command if snapshot is None else snapshot
    table = getattr(about, "table", None)
    if isinstance(table, str):
        entry = cluster.tables.get(TableId(table))
        made.table = names.get(TableId(table), "") if entry is None else entry.name
    made.node = str(getattr(about, "node", ""))
    made.user = str(getattr(command, "user", getattr(command, "to", getattr(command, "role", ""))))
    job = getattr(command, "job", None)
    if isinstance(job, int):
        made.job = job
    made.detail = " ".join(word for word in _words(about) if word != f"name={made.table}")[:_DETAIL_MAX]
    return made


def _words(about: Any) -> Iterator[str]:
    for each in fields(about):
        value = getattr(about, each.name)
        if each.name in _ELSEWHERE or not each.repr or value in ("", (), None, each.default):
            continue
        if isinstance(value, AuditNote):
            yield f"{value.tier}={mask_url(value.name) if '://' in value.name else value.name}"
            yield "different" if value.is_different else f"partitions={len(value.parts)}"
        elif each.name == "tasks":
            yield f"tasks={len(value)}"
        elif isinstance(value, (bool, int)):
            yield f"{each.name}={value}"
        elif each.name in _TEXTS:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            yield f"{each.name}={mask_url(text) if '://' in text else text}"
