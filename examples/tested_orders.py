"""A small shop, and tests of it that find a bug: what happens to an order when a process dies or a reply is lost?

The shop books orders: it writes the order, and counts it. `NaiveShop` does what many programs do, and tries again when
a call fails. `ConditionalShop` makes both writes one atomic batch under a condition, so that a second try is refused
where the first one has taken effect.

Each test runs the shop against a whole cluster in this process, in virtual time: a seed draws which faults happen when.
Duramen keeps its promises in all of them: `cluster.check()` holds every reply against the log. The naive shop makes a
mistake of its replies all the same. The conditional shop passes under the same faults.

    python examples/tested_orders.py
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import duramen
from duramen import aio, testing
from duramen.client.atomic import AtomicBatch

ORDERS = 40
SEEDS = 30


# --- the program under test


class NaiveShop:
    """Books an order, and counts it; where a call fails, it tries again."""

    def __init__(self, table: aio.Table) -> None:
        self._table = table

    async def book(self, order: bytes, what: bytes) -> None:
        """Return when the order is booked."""
        await again(lambda: self._table.put(b"{shop}order-" + order, what))
        await again(lambda: self._table.update(b"{shop}sold", add=1))


class ConditionalShop:
    """Books an order and counts it in one batch, of which a second copy is refused."""

    def __init__(self, table: aio.Table) -> None:
        self._table = table

    async def book(self, order: bytes, what: bytes) -> None:
        """Return when the order is booked."""
        with suppress(duramen.ConditionFailed):  # the order is there: an earlier try has booked it, unheard
            await again(lambda: self._batch(order, what).commit())

    def _batch(self, order: bytes, what: bytes) -> AtomicBatch:
        batch = self._table.batch()
        batch.put(b"{shop}order-" + order, what, if_absent=True)
        return batch.update(b"{shop}sold", add=1)


Shop = NaiveShop | ConditionalShop


async def again(call: Callable[[], Awaitable[object]]) -> None:
    """Call until it works."""
    while True:
        try:
            await call()
        except (duramen.Unavailable, duramen.WriteUnknown):
            await asyncio.sleep(0.1)
        else:
            return


async def serve(shop_of: type[Shop], addresses: list[str]) -> None:
    """The program: it connects, and books what comes."""
    async with await aio.connect(addresses, timeout=1) as database:
        shop = shop_of(await database.create_table("shop", partitions=1, if_missing=True))
        for number in range(ORDERS):
            await shop.book(b"%d" % number, b"a pair of shoes")
            await asyncio.sleep(0.05)


# --- its tests


async def no_order_is_counted_twice(shop_of: type[Shop]) -> tuple[int, int]:
    """Run the shop under faults; return how many orders there are, and how many the shop has counted."""
    async with testing.Cluster(nodes=3) as cluster:
        shop = cluster.start("shop", serve(shop_of, cluster.addresses))
        while shop.is_running:
            await fail_somehow(cluster)
        await shop
        table = (await cluster.connect()).table("shop")
        orders = [key async for key, _ in table.scan(prefix=b"{shop}order-", level="strong")]
        sold = int(await table.get(b"{shop}sold", level="strong") or 0)
        await cluster.check()
        return len(orders), sold


async def fail_somehow(cluster: testing.Cluster) -> None:
    """One fault, and its end."""
    faults = cluster.faults
    await asyncio.sleep(random.random())
    match random.choice(["kill", "cut", "lost reply", "late"]):
        case "kill":
            victim = random.choice([*cluster.nodes, "log"])
            faults.kill(victim)
            await asyncio.sleep(random.random() * 3)
            faults.start(victim)
        case "cut":
            faults.cut(random.choice([*cluster.nodes, "log"]), "shop")
            await asyncio.sleep(random.random() * 3)
        case "lost reply":
            faults.lose_next_message("log", "shop")
        case "late":
            faults.late("shop", 1.5)
            await asyncio.sleep(random.random() * 3)
    faults.heal()


def first_failure(shop_of: type[Shop]) -> tuple[int, int, int] | None:
    """The first seed that shows a difference, with the orders and what was counted."""
    for seed in range(SEEDS):
        orders, sold = testing.run(no_order_is_counted_twice, shop_of, seed=seed)
        if not orders == sold == ORDERS:
            return seed, orders, sold
    return None


def check(claim: str, holds: bool) -> None:
    print(f"{'ok  ' if holds else 'FAIL'}  {claim}")
    if not holds:
        sys.exit(1)


def main() -> None:
    logging.disable(logging.ERROR)  # servers that are killed and cut off have much to say
    found = first_failure(NaiveShop)
    check(f"a seed of {SEEDS} finds the bug of the naive shop", found is not None)
    assert found is not None
    seed, orders, sold = found
    print(f"      seed {seed}: {orders} orders, and {sold} counted")
    check("the seed finds it again", testing.run(no_order_is_counted_twice, NaiveShop, seed=seed) == (orders, sold))
    check(
        f"the conditional shop is right under the same faults, in {SEEDS} seeds", first_failure(ConditionalShop) is None
    )


if __name__ == "__main__":
    main()
