"""Bugs to plant in the endpoints of the Redis protocol of a cluster: in reads that other nodes answer, in listening."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from log_tier.model.errors import DuramenError, OffsetTrimmed
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from router.data.freshness import Freshness
from router.data.requests import ReadPart
from router.endpoints.resp.data.key_views import Overlay
from router.endpoints.resp.data.notifications import Notifications
from router.routing.local_first import LocalFirstConnection
from simulation.planted import Patches

__all__ = ["PLANTED_IN_CLUSTER_RESP"]


def _asked_elsewhere_without_floor() -> Patches:
    return [(Freshness, "after", lambda self, partition, seen: self.offsets.get(partition, NOTHING))]


def _nearest_answers_whatever_it_has() -> Patches:
    read = LocalFirstConnection.read

    async def careless(self: LocalFirstConnection, parts: Sequence[ReadPart], **how: Any) -> Any:
        return await read(self, [part._replace(after=NOTHING) for part in parts], **how)

    return [(LocalFirstConnection, "read", careless)]


def _confirmed_without_a_position() -> Patches:
    async def careless(self: Notifications, names: Sequence[bytes]) -> None:
        return None

    return [(Notifications, "follow", careless)]


def _goes_on_at_the_end() -> Patches:
    watch = LocalFirstConnection.watch

    def careless(self: LocalFirstConnection, table: TableId, start: Any, partitions: Sequence[Partition] = ()) -> Any:
        return watch(self, table, {}, partitions)

    return [(LocalFirstConnection, "watch", careless)]


def _goes_on_behind_a_gap() -> Patches:
    end = Notifications._end

    async def careless(self: Notifications, watch: Any, error: DuramenError) -> None:
        if not isinstance(error, OffsetTrimmed):
            return await end(self, watch, error)
        watch.positions[Partition(int(error.fields["partition"]))] = Offset(int(error.fields["earliest"]))
        return await self._watch(watch)

    return [(Notifications, "_end", careless)]


def _another_version_unjudged() -> Patches:
    put_over = Overlay.put_over

    def careless(self: Overlay, key: bytes, version: Offset, value: bytes, expires_at_ms: int) -> Any:
        reply = put_over(self, key, version, value, expires_at_ms)
        self.guarded = False
        return reply

    return [(Overlay, "put_over", careless)]


PLANTED_IN_CLUSTER_RESP: Final[dict[str, Callable[[], Patches]]] = {
    "a read at another node forgets what the connection has written": _asked_elsewhere_without_floor,
    "a node answers from its replicas without a floor": _nearest_answers_whatever_it_has,
    "a subscription is confirmed before its position is fixed": _confirmed_without_a_position,
    "notifications whose watch breaks go on at the log's end": _goes_on_at_the_end,
    "notifications go on behind what retention took": _goes_on_behind_a_gap,
    "a replica that is behind says by itself that a key has another version": _another_version_unjudged,
}
