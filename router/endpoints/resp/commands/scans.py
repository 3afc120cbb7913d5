"""Walking over keys: SCAN, KEYS, RANDOMKEY, over the core's scans in key order.

A cursor of Redis is a number of 64 bits, and a position in key order is a key. So the endpoint remembers positions
under random numbers: the last ten thousand of all connections. An older one is refused, and its walk begins again.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final

from log_tier.model.identifiers import Partition
from router.data.requests import ScanRequest, ScanResult
from router.data.scan import SCAN_LIMIT_MAX
from router.endpoints.resp.data.tables import ServedTable
from router.endpoints.resp.wire.arguments import SYNTAX, glob, integer, text_of
from router.endpoints.resp.wire.limits import CURSORS_MAX, KEYS_REPLY_MAX, REQUEST_TIMEOUT_S
from router.endpoints.resp.wire.replies import Problem

if TYPE_CHECKING:
    from router.endpoints.resp.connection.client import Client

__all__ = ["Cursors", "keys", "randomkey", "scan"]

_COUNT_DEFAULT: Final = 10

# RANDOMKEY chooses among so many keys that follow a random place: small tables are chosen from evenly.
_SAMPLE: Final = 256


class Cursors:
    """Positions of walks under the numbers that clients know them by."""

    def __init__(self, limit: int = CURSORS_MAX) -> None:
        self._limit = limit
        self._positions: OrderedDict[int, tuple[str, bytes]] = OrderedDict()

    def keep(self, table: str, position: bytes) -> int:
        """A number for a position in a table."""
        number = random.getrandbits(63) + 1
        self._positions[number] = (table, position)
        if len(self._positions) > self._limit:
            self._positions.popitem(last=False)
        return number

    def find(self, table: str, number: int) -> bytes:
        """The position; it stays, as a client may ask for a page twice. Raises `Problem`."""
        found = self._positions.get(number)
        if found is None or found[0] != table:
            raise Problem("ERR invalid cursor: it is not known here (any more), begin again with 0")
        self._positions.move_to_end(number)
        return found[1]


async def scan(client: Client, args: Sequence[bytes]) -> list[object]:
    """SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]"""
    try:
        number = int(args[0])
    except ValueError:
        raise Problem("ERR invalid cursor") from None
    if not 0 <= number < 1 << 64:
        raise Problem("ERR invalid cursor")
    match: Callable[[bytes], object] | None = None
    count, strings = _COUNT_DEFAULT, True
    options = list(args[1:])
    if len(options) % 2:
        raise SYNTAX
    for name, value in zip(options[::2], options[1::2], strict=True):
        option = name.upper()
        if option == b"MATCH":
            match = None if value == b"*" else glob(value)
        elif option == b"COUNT":
            count = integer(value)
            if count < 1:
                raise SYNTAX
        elif option == b"TYPE":
            strings = text_of(value).lower() == "string"
        else:
            raise SYNTAX
    table = await client.current_table()
    cursors = client.server.cursors
    start = cursors.find(table.ref.id, number) if number else b""
    page = await _page(client, table, start, min(count, SCAN_LIMIT_MAX))
    after = cursors.keep(table.ref.id, page.keys[-1] + b"\0") if page.more else 0
    found = [key for key in page.keys if match is None or match(key)] if strings else []
    return [str(after), found]


async def _page(client: Client, table: ServedTable, start: bytes, limit: int) -> ScanResult:
    freshness = client.freshness(table)
    wanted = client.server.own_partitions(table)
    request = ScanRequest(
        table.ref.id,
        start=start,
        limit=limit,
        after={
            partition: client.server.reads.floor(table, partition, freshness)
            for partition in map(Partition, range(table.partitions))
        },
        strong=freshness.level == "strong",
        partitions=() if len(wanted) == table.partitions else wanted,
    )
    if not wanted:
        return ScanResult([], [], [], False, {})
    page = await client.server.connection.scan(request, timeout=REQUEST_TIMEOUT_S)
    for partition, applied in page.applied.items():
        table.raise_floor(partition, applied)
    client.caught_up(table)
    return page


async def _pages(client: Client, table: ServedTable, limit: int) -> AsyncIterator[ScanResult]:
    start = b""
    while True:
        page = await _page(client, table, start, limit)
        yield page
        if not page.more:
            return
        start = page.keys[-1] + b"\0"


async def keys(client: Client, args: Sequence[bytes]) -> list[bytes]:
    """KEYS pattern: everything at once, so for small tables; not of one moment, as SCAN is not."""
    match = glob(args[0])
    found: list[bytes] = []
    async for page in _pages(client, await client.current_table(), SCAN_LIMIT_MAX):
        found += filter(match, page.keys)
        if len(found) > KEYS_REPLY_MAX:
            raise Problem(f"ERR more than {KEYS_REPLY_MAX} keys match: use SCAN")
    return found


async def randomkey(client: Client, args: Sequence[bytes]) -> bytes | None:
    """RANDOMKEY: evenly from a small table; from a large one, one of those that follow a random place."""
    table = await client.current_table()
    page = await _page(client, table, b"", _SAMPLE)
    if page.more:
        replica = random.choice([replica for replica in table.replicas if replica is not None] or [None])
        if replica is not None:
            with replica.reading() as index:
                last = index.scan(b"", None, reverse=True, limit=1).entries
            if last:
                start = _between(page.keys[0], last[0][0])
                page = await _page(client, table, start, _SAMPLE)
    return random.choice(page.keys) if page.keys else None


def _between(first: bytes, last: bytes) -> bytes:
    """A random text from `first` to `last`, evenly by its first bytes after those they share."""
    shared = 0
    while shared < min(len(first), len(last)) and first[shared] == last[shared]:
        shared += 1
    low = int.from_bytes(first[shared : shared + 4].ljust(4, b"\0"))
    high = int.from_bytes(last[shared : shared + 4].ljust(4, b"\0"))
    return last[:shared] + random.randint(low, high).to_bytes(4)
