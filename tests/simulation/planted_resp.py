"""Bugs to plant in the endpoint of the Redis protocol."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from log_tier.model.errors import ConditionFailed, DuramenError, WriteUnknown
from log_tier.model.identifiers import Offset
from router.data.gather.own_offsets import OwnOffsets
from router.endpoints.resp.data.floors import Floors
from router.endpoints.resp.data.key_views import Overlay
from router.endpoints.resp.data.rounds import partition_executor
from router.endpoints.resp.data.rounds.partition_executor import PartitionExecutor
from router.endpoints.resp.data.value_cache import ValueCache
from router.endpoints.resp.wire import error_replies
from simulation.planted import Patches

__all__ = ["PLANTED_IN_RESP"]


def _watched_by_what_was_found() -> Patches:
    return [(Overlay, "is_still", lambda self, key, version: self.version(key) == version)]


def _own_write_not_waited_for() -> Patches:
    return [(Floors, "needed", lambda self, partition, keys: self.floor[partition])]


def _rejected_is_granted() -> Patches:
    def settle(self: Any, error: DuramenError | None, offset: Offset) -> None:
        self.known = offset if error is None or isinstance(error, ConditionFailed) else error
        self._executor.settled(self)

    return [(partition_executor._Verdict, "settle", settle)]


def _unknown_is_refused() -> Patches:
    kinds = [(kind, "TRYAGAIN" if kind is WriteUnknown else word) for kind, word in error_replies._KINDS]
    return [(error_replies, "_KINDS", kinds)]


def _put_back_behind() -> Patches:
    def put_back(self: PartitionExecutor, jobs: Sequence[Any]) -> None:
        back, self._back = set(map(id, self._back)), []
        for job in [part for work in jobs for part in work.parts() if id(part) in back]:
            self.queues.setdefault(job.owner, deque()).append(job)

    return [(PartitionExecutor, "_put_back", put_back)]


def _cache_keeps_what_was_overwritten() -> Patches:
    def forget(self: ValueCache, keys: Iterable[bytes]) -> None:
        return None

    return [(ValueCache, "_forget", forget)]


def _all_offsets_are_own() -> Patches:
    return [(OwnOffsets, "reach", lambda self, after, before: True)]


PLANTED_IN_RESP: Final[dict[str, Callable[[], Patches]]] = {
    "a watched key is judged by what the round found": _watched_by_what_was_found,
    "a read does not wait for the connection's own write": _own_write_not_waited_for,
    "a group that was rejected is told that it was granted": _rejected_is_granted,
    "a write of which nobody knows is told to be refused": _unknown_is_refused,
    "commands that run again run behind later ones": _put_back_behind,
    "the cache keeps values that were overwritten": _cache_keeps_what_was_overwritten,
    "a group is granted although others may have written before it": _all_offsets_are_own,
}
