"""A cache that never serves stale data: each request says what its caller has seen, and the cache knows what it has.

Two processes. The shop (this one) changes prices. The other one serves prices out of its own memory, and asks the
database only when it must. Somebody who has just changed a price carries the write's token; the cache compares it with
the token of what it holds, and knows by that alone, without asking anybody, whether its copy is new enough.

Without the token the same cache serves old prices, as every cache does; the example counts them.

    python examples/fresh_cache.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import duramen
from duramen.blocking import Table

ARTICLES = 20
CHANGES = 300


class Cached(NamedTuple):
    value: bytes | None
    seen: duramen.Token
    """Everything that the value is known to contain."""


class FreshCache:
    """Values in memory, each with the token of the state it was read from."""

    def __init__(self, database: duramen.blocking.Database, table: Table) -> None:
        self._database = database
        self._table = table
        self._cached: dict[bytes, Cached] = {}
        self.hits = self.misses = 0

    def get(self, key: bytes, after: str | None) -> bytes | None:
        """The value, from memory if that is at least as new as `after`."""
        found = self._cached.get(key)
        if found is not None and (after is None or _covers(found.seen, duramen.Token.parse(after))):
            self.hits += 1
            return found.value
        self.misses += 1
        value = self._table.get(key, after=after)
        # The session's token now contains the state from which this read was answered, or a later one.
        self._cached[key] = Cached(value, duramen.Token.parse(self._database.token()))
        return value


def _covers(seen: duramen.Token, asked: duramen.Token) -> bool:
    """Whether everything that `asked` names was seen."""
    return all(
        seen.tables.get(table, {}).get(partition, -1) >= offset
        for table, offsets in asked.tables.items()
        for partition, offset in offsets.items()
    )


def serve_prices(target: str) -> None:
    """The second process: questions come as JSON lines, answers go back the same way."""
    with duramen.connect(target) as database:
        cache = FreshCache(database, database.table("prices"))
        for line in sys.stdin:
            question = json.loads(line)
            value = cache.get(question["key"].encode(), question["after"])
            answer = {"value": None if value is None else value.decode(), "hits": cache.hits, "misses": cache.misses}
            print(json.dumps(answer), flush=True)


class PriceServer:
    """The second process, as the first one sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, key: str, *, after: str | None = None) -> dict[str, int | str | None]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"key": key, "after": after}), file=self._process.stdin, flush=True)
        answer: dict[str, int | str | None] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is ended with the block."""
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()


def check(claim: str, holds: bool) -> None:
    print(f"{'ok  ' if holds else 'FAIL'}  {claim}")
    if not holds:
        sys.exit(1)


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="duramen-") as folder,
        running("-m", "duramen", "up", "--port", "0", "--json", "--data", str(Path(folder) / "data")) as server,
    ):
        assert server.stdout is not None
        target = f"127.0.0.1:{json.loads(server.stdout.readline())['port']}"
        with duramen.connect(target) as shop, running(__file__, "--serve", target) as second:
            prices = shop.create_table("prices", partitions=4)
            cache = PriceServer(second)
            change_prices(prices, cache)


def change_prices(prices: Table, cache: PriceServer) -> None:
    stale_without = stale_with = 0
    answer: dict[str, int | str | None] = {}
    for number in range(CHANGES):
        key = f"article-{number % ARTICLES}"
        price = f"{number / 100 + 1:.2f}"
        done = prices.put(key.encode(), price.encode())
        stale_without += cache.ask(key)["value"] != price
        stale_with += cache.ask(key, after=done.token)["value"] != price
        hits = cache.ask("article-0")["hits"]
        answer = cache.ask(key, after=done.token)  # the same token again: the copy is new enough by now
        stale_with += answer["value"] != price or answer["hits"] == hits
    print(f"{CHANGES} prices changed; each was asked for in another process right afterwards:")
    print(f"  without the token  {stale_without:4} stale answers")
    print(f"  with the token     {stale_with:4} stale answers")
    print(f"  the cache answered {answer['hits']} questions from memory and {answer['misses']} from the database")
    check("without a token a cache serves stale data", stale_without > 0)
    check("with the token it never does, and it is still a cache", stale_with == 0)


if __name__ == "__main__":
    arguments: Sequence[str] = sys.argv[1:]
    if arguments[:1] == ["--serve"]:
        serve_prices(arguments[1])
    else:
        main()
