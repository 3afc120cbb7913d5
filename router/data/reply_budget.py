"""Reading keys of a replica into a reply, and how much one reply may hold."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX
from log_tier.model.errors import IndexDamaged, InvalidKey, LimitExceeded
from log_tier.model.record import KEY_BYTES_MAX
from router.data.requests import READ_REPLY_BYTES_MAX, ReadResult, read_result_of
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


async def read_many_keys(replica: Replica, keys: Sequence[bytes], budget: ReplyBudget) -> ReadResult:
    """The same; a thread reads more than `AT_ONCE_ITEMS_MAX` keys, and opens an index that is at rest. Other callers
    are served meanwhile.
    """
    if len(keys) <= AT_ONCE_ITEMS_MAX and not replica.index.is_at_rest:
        return read_keys(replica, keys, budget)
    try:
        with replica.reading() as index:
            result, size = await asyncio.to_thread(_read, index, keys, budget.left)
    except IndexDamaged as error:
        replica.damaged(error)
        raise
    replica.progress.served += len(keys)
    budget.take(size, len(keys))
    return result


def _read(index: LmdbIndex, keys: Sequence[bytes], bytes_max: int) -> tuple[ReadResult, int]:
    """What is stored under the keys, in one transaction, and the bytes of its values."""
    if keys and not 0 < len(longest := max(keys, key=len)) <= KEY_BYTES_MAX:
        raise InvalidKey(f"a key of this read has {len(longest)} bytes; keys have 1 to {KEY_BYTES_MAX}")
    found = index.get_many(keys, bytes_max=bytes_max)
    return read_result_of(found), sum(map(len, filter(None, found.values)))
