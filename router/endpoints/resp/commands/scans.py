"""Walking over keys: SCAN, KEYS, RANDOMKEY, over the data plane's scans in key order.

No turn of the event loop is long, however many keys there are: pages are read in a thread, a page holds few enough keys
to be merged in a millisecond, and keys are compared with a pattern some at a time, by the number of bytes that this may
compare (`router/endpoints/resp/wire/patterns.py`). KEYS with a pattern that begins with literal bytes walks over the
keys that begin with them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Final

from log_tier.model.identifiers import Partition
from log_tier.model.prefix_range import prefix_range
from log_tier.model.record import KEY_BYTES_MAX
from router.data.requests import ScanRequest, ScanResult
from router.data.scan import SCAN_LIMIT_MAX
from router.endpoints.resp.command_spec import async_command
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.wire.arguments import SYNTAX, check_options, integer, text_of
from router.endpoints.resp.wire.limits import KEYS_BYTES_MAX, KEYS_REPLY_MAX, REQUEST_TIMEOUT_S
from router.endpoints.resp.wire.patterns import Glob
from router.endpoints.resp.wire.replies import Problem

__all__ = ["SPECS", "keys", "randomkey", "scan"]

_COUNT_DEFAULT: Final = 10

# Keys that are read at once: merging a page takes some 0.2 µs a key on the event loop, reading one 2 µs in a thread.
_PAGE_KEYS: Final = 2000

# Bytes that may be compared with a pattern before others get their turn at the event loop; at most some 3 ms.
_TURN_STEPS: Final = 500_000

# RANDOMKEY chooses among so many keys that follow a random place: small tables are chosen from evenly.
_SAMPLE: Final = 256


async def scan(client: CommandContext, args: Sequence[bytes]) -> list[object]:
    """SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]"""
    try:
        number = int(args[0])
    except ValueError:
        raise Problem("ERR invalid cursor") from None
    if not 0 <= number < 1 << 64:
        raise Problem("ERR invalid cursor")
    pattern: Glob | None = None
    count, strings = _COUNT_DEFAULT, True
    options = args[1:]
    check_options(options)
    if len(options) % 2:
        raise SYNTAX
    for name, value in zip(options[::2], options[1::2], strict=True):
        option = name.upper()
        if option == b"MATCH":
            pattern = Glob(value)
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
    _check_form(client, table, "scan", [b"SCAN", *args])
    walk = _Walk(client, table)
    # Only keys that can match are walked over: a caller may have no right on the others, not even to their number.
    first, end = prefix_range(b"" if pattern is None else _prefix_of(table, pattern))
    start = max(start, first)
    if end is not None and start >= end:
        return ["0", []]
    found: list[bytes] = []
    left = min(count, SCAN_LIMIT_MAX)
    for _ in range(-(-left // _PAGE_KEYS)):  # so many and no more: pages of large values have fewer keys
        page = await walk.page(start, min(left, _PAGE_KEYS), end)
        if strings:
            shown = await _shown(table, page.keys)
            found += shown if pattern is None else await _matching(pattern, shown)
        if not page.more:
            return ["0", found]
        start = page.keys[-1] + b"\0"
        left -= len(page.keys)
        if left <= 0:
            break
    return [str(cursors.keep(table.ref.id, start)), found]


def _prefix_of(table: ServedTable, pattern: Glob) -> bytes:
    """What the stored keys begin with that a pattern can match."""
    return pattern.prefix[:KEY_BYTES_MAX] if table.form is None else table.form.first_of_texts(pattern.prefix)


async def _shown(table: ServedTable, keys: Sequence[bytes]) -> Sequence[bytes]:
    """Keys as clients have them: of a table with a definition, their text. 3 µs a key, in a thread."""
    if table.form is None:
        return keys
    return await asyncio.to_thread(list, map(table.form.key_text, keys))


def _check_form(client: CommandContext, table: ServedTable, name: str, command: Sequence[bytes]) -> None:
    """Raises `Problem` where the caller may not walk over the keys that the pattern means: see `denied_by_form`."""
    if table.form is not None:
        denied = client.denied_by_form(client.server.commands[name], list(command))
        if denied is not None:
            raise denied


async def _matching(pattern: Glob, keys: Sequence[bytes]) -> list[bytes]:
    """Those of the keys that match, with a turn for others after `_TURN_STEPS` bytes that may be compared."""
    if pattern.everything:
        return list(keys)
    some = max(1, _TURN_STEPS // pattern.steps(KEY_BYTES_MAX))
    found = list(filter(pattern.matches, keys[:some]))
    for at in range(some, len(keys), some):
        await asyncio.sleep(0)
        found += filter(pattern.matches, keys[at : at + some])
    return found


class _Walk:
    """The pages of one command. The first one holds what was acknowledged when the command came; each later one is at
    least as new as the one before it, and does not wait for what is written meanwhile.
    """

    def __init__(self, client: CommandContext, table: ServedTable) -> None:
        self._client, self._table = client, table
        freshness = client.freshness(table)
        self._strong = freshness.strong
        self._is_promise = freshness.level != "eventual"
        self._after = {
            partition: freshness.after(partition, table.seen[partition])
            for partition in map(Partition, range(table.partitions))
        }

    async def page(self, start: bytes, limit: int, end: bytes | None = None) -> ScanResult:
        client, table = self._client, self._table
        wanted = client.server.own_partitions(table)
        if not wanted:
            return ScanResult([], [], [], False, {})
        request = ScanRequest(
            table.ref.id,
            start=start,
            end=end,
            limit=limit,
            after=self._after,
            strong=self._strong,
            partitions=() if len(wanted) == table.partitions else wanted,
        )
        page = await client.server.connection.scan(request, timeout=REQUEST_TIMEOUT_S)
        self._strong = False  # the first page has waited for the log's end
        self._after.update(page.applied)
        for partition, applied in page.applied.items() if self._is_promise else ():
            table.raise_floor(partition, applied)
        client.caught_up(table)
        return page


async def _pages(client: CommandContext, table: ServedTable, prefix: bytes) -> AsyncIterator[Sequence[bytes]]:
    """All keys that begin with `prefix`, page by page."""
    walk = _Walk(client, table)
    start, end = prefix_range(prefix)
    while True:
        page = await walk.page(start, _PAGE_KEYS, end)
        yield page.keys
        if not page.more:
            return
        start = page.keys[-1] + b"\0"


async def keys(client: CommandContext, args: Sequence[bytes]) -> list[bytes]:
    """KEYS pattern: everything at once, so for small tables; like SCAN, it is not one consistent read."""
    pattern = Glob(args[0])
    found: list[bytes] = []
    size = 0
    table = await client.current_table()
    _check_form(client, table, "keys", [b"KEYS", *args])
    async for some in _pages(client, table, _prefix_of(table, pattern)):
        more = await _matching(pattern, await _shown(table, some))
        found += more
        size += sum(map(len, more))
        if len(found) > KEYS_REPLY_MAX:
            raise Problem(f"ERR more than {KEYS_REPLY_MAX} keys match: use SCAN")
        if size > KEYS_BYTES_MAX:
            raise Problem(f"ERR the keys that match have more than {KEYS_BYTES_MAX} bytes: use SCAN")
    return found


async def randomkey(client: CommandContext, args: Sequence[bytes]) -> bytes | None:
    """RANDOMKEY: evenly from a small table; from a large one, one of those that follow a random place."""
    table = await client.current_table()
    walk = _Walk(client, table)
    page = await walk.page(b"", _SAMPLE)
    keys = page.keys
    if page.more:
        # Of the partitions that the walk covers alone: behind another one's last key there may be no key of theirs.
        covered = (table.replicas[partition] for partition in client.server.own_partitions(table))
        replica = random.choice([replica for replica in covered if replica is not None] or [None])
        if replica is not None:
            with replica.reading() as index:
                last = index.scan(b"", None, reverse=True, limit=1).keys
            if last and last[0] > keys[0]:
                # No keys: those behind that place were deleted meanwhile.
                keys = (await walk.page(_between(keys[0], last[0]), _SAMPLE)).keys or keys
    return (await _shown(table, [random.choice(keys)]))[0] if keys else None


def _between(first: bytes, last: bytes) -> bytes:
    """A random text from `first` to `last`, evenly by its first bytes after those they share."""
    shared = 0
    while shared < min(len(first), len(last)) and first[shared] == last[shared]:
        shared += 1
    low = int.from_bytes(first[shared : shared + 4].ljust(4, b"\0"))
    high = int.from_bytes(last[shared : shared + 4].ljust(4, b"\0"))
    return last[:shared] + random.randint(low, high).to_bytes(4)


SPECS: Final = (
    async_command("randomkey", 1, randomkey, "readonly", summary="Returns some key."),
    async_command("scan", -2, scan, "readonly", summary="Walks over the keys, some at a time."),
    async_command("keys", 2, keys, "readonly", summary="Returns the keys that match a pattern."),
)
"""The commands of this module."""
