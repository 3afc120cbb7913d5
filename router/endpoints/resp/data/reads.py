"""Reads: from the replica that is here, at once, or by the core, which waits and knows the other nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from log_tier.model.errors import DuramenError, TableNotFound
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.record import KEY_BYTES_MAX
from router.data.requests import ReadPart
from router.data.seam import DataPlane
from router.endpoints.resp.data.local_reads import LocalReads, by_partition
from router.endpoints.resp.data.tables import ServedTable
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S
from router.endpoints.resp.wire.problems import BAD_KEY
from serving_tier.fold.entry import Entry

__all__ = ["Freshness", "Reads", "check_keys"]

# The core answers so many keys in one request.
_KEYS_MAX: Final = 10_000


class Freshness(NamedTuple):
    """How new an answer must be."""

    level: str = "session"
    """`session`: not older than what this endpoint has shown; `eventual`: anything; `strong`: all that was
    acknowledged."""
    after: Mapping[Partition, Offset] = {}
    """What a token asks for besides."""


def check_keys(keys: Sequence[bytes]) -> None:
    """Raises `Problem` for what cannot be a key."""
    if keys and not (min(map(len, keys)) > 0 and max(map(len, keys)) <= KEY_BYTES_MAX):
        raise BAD_KEY


class Reads(LocalReads):
    """The reads of all connections. `clock_ms`: what expiries are judged by, besides the log's time."""

    def __init__(self, connection: DataPlane, clock_ms: Callable[[], int]) -> None:
        super().__init__(clock_ms)
        self._connection = connection

    async def entries(
        self, table: ServedTable, keys: Sequence[bytes], freshness: Freshness
    ) -> dict[bytes, Entry | None]:
        """The same, after whatever waiting it needs. Raises what the core says of the first part that fails."""
        if freshness.level == "session" and not freshness.after:
            found = await self._here(table, keys)
            if found is not None:
                return found
        groups = by_partition(table, list(dict.fromkeys(keys)))
        found = {}
        parts = [
            ReadPart(
                table.ref.id,
                partition,
                mine[at : at + _KEYS_MAX],
                self.floor(table, partition, freshness),
                freshness.level == "strong",
            )
            for partition, mine in groups.items()
            for at in range(0, len(mine), _KEYS_MAX)
        ]
        for some in _portions(parts):
            results = await self._connection.read(some, timeout=REQUEST_TIMEOUT_S)
            for part, result in zip(some, results, strict=True):
                if isinstance(result, DuramenError):
                    if isinstance(result, TableNotFound):
                        table.gone = True
                    raise result
                table.raise_floor(part.partition, result.applied)
                expiries = result.expiries or [0] * len(part.keys)
                for key, value, version, expiry in zip(
                    part.keys, result.values, result.versions, expiries, strict=True
                ):
                    found[key] = None if value is None else Entry(value, Offset(version), expiry)
        return found

    async def _here(self, table: ServedTable, keys: Sequence[bytes]) -> dict[bytes, Entry | None] | None:
        """The entries from the replicas that are here, after they have applied what was written; None without them."""
        table.look()
        found = self.at_once(table, keys)
        if found is not None:
            return found
        for partition, mine in by_partition(table, keys).items():
            replica = table.replicas[partition]
            if replica is None or replica.failure is not None:
                return None
            await replica.wait_applied(table.needed(partition, mine), timeout=REQUEST_TIMEOUT_S)
        return self.at_once(table, keys)

    @staticmethod
    def floor(table: ServedTable, partition: Partition, freshness: Freshness) -> Offset:
        """The offset that an answer must hold."""
        asked = freshness.after.get(partition, NOTHING)
        return asked if freshness.level == "eventual" else max(asked, table.seen[partition])


def _portions(parts: Sequence[ReadPart]) -> list[list[ReadPart]]:
    """Requests of at most so many keys."""
    portions: list[list[ReadPart]] = []
    room = 0
    for part in parts:
        if not portions or len(part.keys) > room:
            portions.append([])
            room = _KEYS_MAX
        portions[-1].append(part)
        room -= len(part.keys)
    return portions
