"""A page-view counter: many visitors at once, every view counted exactly once, and it is all still there tomorrow.

`update(key, add=1)` is decided by the log, so nobody reads a number, adds one and writes it back: two visitors who
come together can not overwrite each other. The database runs inside this process; there is no server.

    python examples/page_views.py
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duramen
from duramen.blocking import Table

PAGES = ["/", "/pricing", "/docs", "/docs/tokens", "/blog/heartwood"]
VISITORS = 16
VIEWS_EACH = 250


def visit(views: Table, seed: int) -> Counter[str]:
    """One visitor, clicking around; returns what was seen, so that the counts can be checked."""
    choose = random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(VIEWS_EACH):
        page = choose.choices(PAGES, weights=[8, 4, 3, 2, 1])[0]
        views.update(f"2013-01-01{page}".encode(), add=1)
        seen[page] += 1
    return seen


def read_counts(views: Table) -> dict[str, int]:
    """The day's counts: keys that begin with the date lie together, so a day is one scan."""
    prefix = b"2013-01-01"
    return {key.removeprefix(prefix).decode(): int(value) for key, value in views.scan(prefix=prefix)}


def show(counts: dict[str, int]) -> None:
    for page, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"  {count:6,}  {page}")


def check(claim: str, holds: bool) -> None:
    print(f"{'ok  ' if holds else 'FAIL'}  {claim}")
    if not holds:
        sys.exit(1)


def main(_: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="duramen-") as folder:
        data = Path(folder) / "data"
        with duramen.open(data) as database, ThreadPoolExecutor(VISITORS) as threads:
            views = database.create_table("views", partitions=4)
            visits = list(threads.map(lambda seed: visit(views, seed), range(VISITORS)))
            expected = sum(visits, Counter())
            counts = read_counts(views)
            print(f"{VISITORS} visitors at once, {VIEWS_EACH} views each:")
            show(counts)
            check(f"all {VISITORS * VIEWS_EACH:,} views were counted, each once", counts == expected)

            best = views.update(b"record", max=max(counts.values())).value
            views.update(b"record", max=1)
            check("max keeps the larger number", views.get(b"record") == str(best).encode())

        with duramen.open(data) as database:
            check(
                "the counts are there after the database was closed", read_counts(database.table("views")) == expected
            )


if __name__ == "__main__":
    main(sys.argv[1:])
