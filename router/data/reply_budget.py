"""Reading keys of a replica into a reply, and how much one reply may hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from log_tier.access.user_turns import ITEM_BYTES, turns_of_loop
from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX
from log_tier.model.errors import IndexDamaged, InvalidKey, InvalidRequest, LimitExceeded
from log_tier.model.record import KEY_BYTES_MAX
from router.data.requests import (
    PAST_VERSIONS_MAX,
    READ_REPLY_BYTES_MAX,
    PastRead,
    ReadPart,
    ReadResult,
    read_result_of,
)
from serving_tier.fold.entry import NEVER, expiry_of, value_of
from serving_tier.index.index import PastPoint
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.replica import Replica

__all__ = ["ReplyBudget", "read_keys", "read_many_keys"]


class ReplyBudget:
    """The bytes that are left in one reply, shared by the parts of a request: first come, first served."""

    left = READ_REPLY_BYTES_MAX  # the class's until something is taken: each read makes a budget

    def take(self, size: int, keys: int) -> None:
        """Take `size` bytes. Raises `LimitExceeded` where fewer are left: the caller then asks for that part alone."""
        if size > self.left:
            raise LimitExceeded(
                f"the values of these {keys} keys have {size} bytes, and the reply has room for {self.left} of its "
                f"{READ_REPLY_BYTES_MAX}: ask for fewer keys at once",
                limit=self.left,
                size=size,
            )
        self.left -= size


def read_keys(replica: Replica, keys: Sequence[bytes], budget: ReplyBudget) -> ReadResult:
    """Read keys in one transaction. About 2 µs a key. Raises `InvalidKey`, `LimitExceeded`, `IndexDamaged`."""
    try:
        result, size = _read(replica.index, keys, budget.left)
    except IndexDamaged as error:
        replica.damaged(error)  # it stops, and another index is brought up in its place
        raise
    replica.progress.served += len(keys)
    budget.left -= size  # as many were left: nobody has taken any since
    return result


async def read_many_keys(replica: Replica, part: ReadPart, budget: ReplyBudget) -> ReadResult:
    """The same for a part, also of the past; a thread reads more than `AT_ONCE_ITEMS_MAX` keys or versions, and opens
    an index that is at rest. Other callers are served meanwhile. Raises `HistoryGone` as well.
    """
    keys, past = part.keys, part.past
    items = len(keys) if past is None else max(len(keys), past.versions)
    is_small = items <= AT_ONCE_ITEMS_MAX and not replica.index.is_at_rest
    if is_small and past is None:
        return read_keys(replica, keys, budget)
    try:
        with replica.reading() as index:
            read = partial(_read, index, keys, budget.left)
            if past is not None:
                read = partial(_read_past, index, keys, past, budget.left)
            result, size = read() if is_small else await turns_of_loop().run(items * ITEM_BYTES, read)
    except IndexDamaged as error:
        replica.damaged(error)
        raise
    replica.progress.served += len(keys)
    budget.take(size, len(keys))
    return result


def _read(index: LmdbIndex, keys: Sequence[bytes], bytes_max: int) -> tuple[ReadResult, int]:
    """What is stored under the keys, in one transaction, and the bytes of its values."""
    _check(keys)
    found = index.get_many(keys, bytes_max=bytes_max)
    return read_result_of((*found, None)), sum(map(len, filter(None, found.values)))


def _read_past(index: LmdbIndex, keys: Sequence[bytes], past: PastRead, bytes_max: int) -> tuple[ReadResult, int]:
    """What was stored under the keys, or the versions of one, and the bytes of the values."""
    _check(keys)
    point = PastPoint(past.offset, past.time_ms)
    if not past.versions:
        found = index.get_past(keys, point, bytes_max=bytes_max)
        return read_result_of((*found, None)), sum(map(len, filter(None, found.values)))
    if len(keys) != 1:
        raise InvalidRequest(f"the versions of one key are read at once, not of {len(keys)}: ask for each by itself")
    if past.versions > PAST_VERSIONS_MAX:
        raise LimitExceeded(
            f"a read has at most {PAST_VERSIONS_MAX} versions, this one asks for {past.versions}: ask for the earlier "
            "ones at the offset of the last one",
            limit=PAST_VERSIONS_MAX,
            size=past.versions,
        )
    at, versions = index.versions(keys[0], point, limit=past.versions, bytes_max=bytes_max)
    result = ReadResult(
        at,
        [None if each.stored is None else value_of(each.stored) for each in versions],
        [each.offset for each in versions],
        [NEVER if each.stored is None else expiry_of(each.stored) for each in versions],
        [each.log_time_ms for each in versions],
    )
    return result, sum(map(len, filter(None, result.values)))


def _check(keys: Sequence[bytes]) -> None:
    if keys and not 0 < len(longest := max(keys, key=len)) <= KEY_BYTES_MAX:
        raise InvalidKey(f"a key of this read has {len(longest)} bytes; keys have 1 to {KEY_BYTES_MAX}")
