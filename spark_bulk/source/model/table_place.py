"""Where a table is: who holds it, where its log lies, which snapshots there are. Asked once, by the driver that plans.

What is found here travels with each Spark task, so a task asks nobody where things are; what has moved meanwhile, it
notices by the error, and the next source is tried.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from log_tier.catalog.cluster_map import SnapshotEntry
from log_tier.catalog.remote.cluster_view import ClusterView, fetch_view
from log_tier.model.errors import (
    DeadlineExceeded,
    Disconnected,
    InvalidRequest,
    PermissionDenied,
    TableNotFound,
    TokenAhead,
)
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.log import Bounds, Log, Topic
from log_tier.model.partitioner import Partitioner
from log_tier.model.tokens import Token
from log_tier.open import open_log
from log_tier.privacy.masked_url import mask_url
from log_tier.rows.definition import TableDefinition
from spark_bulk.source.model.cluster_login import NO_LOGIN, ClusterLogin

__all__ = [
    "PeerAddress",
    "TablePlace",
    "all_bounds",
    "find_table",
    "open_place_log",
    "opened_log",
    "readable_bounds",
    "token_offsets",
]

_DEFINITIONS_MAX: Final = 64
_PASSED_ON: Final = "grpc://"


class PeerAddress(NamedTuple):
    """A serving node."""

    name: str
    target: str
    """host:port"""


@dataclass(frozen=True, slots=True)
class TablePlace:
    """One table, as the cluster's map had it."""

    topic: Topic
    """Its log, under its name."""
    partitioner: Partitioner
    log_url: str = field(repr=False)
    """May hold secrets (a Kafka URL's query): `named_log` is for people."""
    starts: tuple[Offset, ...]
    """The first offset that belongs to the table, by partition."""
    peers: tuple[tuple[PeerAddress, ...], ...]
    """Who holds a readable replica, by partition."""
    snapshots: tuple[tuple[SnapshotEntry, ...], ...]
    """Known snapshots, the oldest first, by partition."""
    login: ClusterLogin = NO_LOGIN
    """How its log and its nodes are called."""
    definition_text: str = field(default="", repr=False)
    """The definition of its keys and values, as a barrier carries it: a task reads it again. Empty: bytes."""

    @property
    def definition(self) -> TableDefinition | None:
        """What its keys and values are; None: bytes."""
        return _definition_of(self.definition_text) if self.definition_text else None

    @property
    def row_definition(self) -> TableDefinition | None:
        """The same for a table whose values are rows; None: it is another one."""
        found = self.definition
        return found if found is not None and found.value == "row" else None

    def check_bytes(self) -> None:
        """Raise `InvalidRequest` for a table that does not hold just any bytes: no version of it is built as yet."""
        if self.definition_text:
            raise InvalidRequest(
                f"table {self.topic.name} has a definition of its keys and values, and no version of such a table is "
                'built as yet: write its rows by df.write.format("duramen"), or through a client'
            )

    @property
    def partitions(self) -> Sequence[Partition]:
        """Their numbers."""
        return [Partition(number) for number in range(self.topic.partitions)]

    def only(self, partition: Partition) -> TablePlace:
        """The place with one partition alone: what a task needs."""
        return replace(
            self,
            peers=tuple(each if number == partition else () for number, each in enumerate(self.peers)),
            snapshots=tuple(each if number == partition else () for number, each in enumerate(self.snapshots)),
        )

    def named(self, partition: Partition) -> str:
        """The partition, for people."""
        return f"{self.topic.name}/{partition}"

    @property
    def named_log(self) -> str:
        """The log's URL, for messages."""
        return mask_url(self.log_url).partition("?")[0]


async def find_table(login: ClusterLogin, name: str, *, timeout_s: float) -> TablePlace:
    """Ask the first server that answers. Raises `TableNotFound`, and `PermissionDenied` in its place to a user;
    `Disconnected`, `DeadlineExceeded`, `Unauthenticated`, and `InvalidRequest` if it does not say where the log is.
    """
    at, view = await _first_view(login, timeout_s)
    try:
        table, nodes = view.map.find(name), view.map.nodes
    except TableNotFound:
        if not login.token_file:
            raise
        # A user is shown those tables alone on which it has a right.
        raise PermissionDenied(
            f"{at} shows user {login.proven_user} no table {name}: there is none, or what is missing is 'read {name}'"
        ) from None
    numbers = [Partition(number) for number in range(table.partitions)]
    return TablePlace(
        topic=table.topic,
        partitioner=table.partitioner,
        definition_text="" if table.definition is None else table.definition.text,
        log_url=_log_url(at, view),
        starts=tuple(table.start(number) for number in numbers),
        peers=tuple(
            tuple(
                PeerAddress(node, nodes[node].address)
                for node in table.readable(number)
                if node in nodes and nodes[node].address
            )
            for number in numbers
        ),
        snapshots=tuple(view.map.snapshots_of(table.partition(number)) for number in numbers),
        login=login,
    )


@lru_cache(maxsize=_DEFINITIONS_MAX)
def _definition_of(text: str) -> TableDefinition:
    return TableDefinition.from_document(json.loads(text))


async def _first_view(login: ClusterLogin, timeout_s: float) -> tuple[str, ClusterView]:
    for at in login.servers:
        try:
            with login.used():
                return at, await fetch_view(at, timeout=timeout_s)
        except TimeoutError as error:
            if isinstance(error, DeadlineExceeded):
                raise
            raise DeadlineExceeded(f"the server at {at} sent no cluster map within {timeout_s:g} s") from error
        except Disconnected:
            if at == login.servers[-1]:
                raise
    raise AssertionError("a login names a server at least")


def _log_url(at: str, view: ClusterView) -> str:
    if view.log_url:
        return view.log_url
    if view.role == "single" or view.passes_log:
        # A single server has the log itself, and a router passes on one that is for servers alone: both do so at the
        # address at which they serve the rest.
        return f"grpc://{at}"
    raise InvalidRequest(
        f"the {view.role} at {at} does not tell where the log is, which Spark reads and writes itself (no node of a "
        "cluster with certificates tells it, and no server of one on Kafka): name a router; on Kafka, start a "
        'router with client_log = "kafka://…" and name that one; see OPERATIONS'
    )


@asynccontextmanager
async def opened_log(place: TablePlace) -> AsyncIterator[Log]:
    """The table's log, closed at the end."""
    log = await open_place_log(place)
    try:
        yield log
    finally:
        await log.close()


async def open_place_log(place: TablePlace) -> Log:
    """The table's log; the caller closes it."""
    with place.login.used():
        return await open_log(place.log_url)


async def all_bounds(place: TablePlace, *, timeout_s: float) -> list[Bounds]:
    """The bounds of every partition's log. Raises what the log raises, `DeadlineExceeded`."""
    try:
        async with asyncio.timeout(timeout_s), opened_log(place) as log:
            return await log.all_bounds(place.topic.id)
    except TimeoutError as error:
        raise DeadlineExceeded(f"the log at {place.named_log} did not answer within {timeout_s:g} s") from error


async def readable_bounds(place: TablePlace, *, timeout_s: float) -> list[Bounds]:
    """`all_bounds`, for a reader. Its tasks read the table's index, or its log: where its user may not read all of the
    table, this is refused once, and not each of them.

    Raises as `all_bounds`, and `PermissionDenied`.
    """
    try:
        async with asyncio.timeout(timeout_s), opened_log(place) as log:
            bounds = await log.all_bounds(place.topic.id)
            # Of a log that servers pass on they decide who reads it; of one in Kafka its brokers do.
            if place.login.token_file and place.log_url.startswith(_PASSED_ON):
                await _check_readable(place, log, Offset(bounds[0].latest + 1))
            return bounds
    except TimeoutError as error:
        raise DeadlineExceeded(f"the log at {place.named_log} did not answer within {timeout_s:g} s") from error


async def _check_readable(place: TablePlace, log: Log, behind: Offset) -> None:
    """Ask for what is behind the log's end, which is nothing."""
    reader: Any = log.read(place.topic.partition(Partition(0)), behind, follow=False)
    try:
        async with aclosing(reader) as chunks:
            async for _ in chunks:
                return
    except PermissionDenied as error:
        name = place.topic.name
        raise PermissionDenied(
            f"{error.message}. Spark reads all of {name}, its index or its log, and takes 'read {name}' without a key "
            f"prefix; with a grant on a prefix, `duramen scan {name} --prefix …` and the clients' scan(prefix=…) read "
            "those keys"
        ) from None


def token_offsets(text: str, place: TablePlace, bounds: Sequence[Bounds]) -> dict[Partition, Offset]:
    """What a token says of a table, checked against its log.

    Raises `InvalidToken` for another table's, `TokenAhead` where it names what the log does not hold.
    """
    found = dict(Token.parse(text).offsets(place.topic.id, table_name=place.topic.name))
    for partition, offset in found.items():
        if partition >= place.topic.partitions:
            raise TableNotFound(
                f"the token names partition {partition}, {place.topic.name} has {place.topic.partitions}"
            )
        latest = bounds[partition].latest
        if offset > latest:
            raise TokenAhead(
                f"the token names offset {offset} of {place.named(partition)}, whose log ends at {latest}",
                partition=partition,
                asked=offset,
                latest=latest,
            )
    return {partition: Offset(max(offset, NOTHING)) for partition, offset in found.items()}
