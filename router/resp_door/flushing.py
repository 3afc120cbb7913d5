"""FLUSHDB: the table goes over to an empty version of itself, by a barrier in the log of each partition.

It costs the same whatever the table holds, and every replica clears it at the same offsets. What was acknowledged
before the command came is gone; what others write meanwhile is there or not, as with Redis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from log_tier.identifiers import Partition
from router.admin.clearing import clear_table
from router.resp_door.arguments import SYNTAX, text_of
from router.resp_door.limits import REQUEST_TIMEOUT_S
from router.resp_door.replies import Problem, Simple

if TYPE_CHECKING:
    from router.resp_door.client import Client

__all__ = ["flushdb"]


async def flushdb(client: Client, args: Sequence[bytes]) -> Simple:
    """FLUSHDB [ASYNC|SYNC]: both are the same here; the reply comes when no later read shows an old key."""
    if len(args) > 1 or (args and text_of(args[0]).upper() not in ("ASYNC", "SYNC")):
        raise SYNTAX
    door = client.door
    if door.admin is None:
        raise Problem("ERR this server cannot clear tables")
    table = await client.current_table()
    admin = await door.admin()
    cleared = await clear_table(admin, table.ref.name, timeout=REQUEST_TIMEOUT_S)
    for number, offset in enumerate(cleared):
        table.raise_floor(Partition(number), offset)
    return Simple("OK")
