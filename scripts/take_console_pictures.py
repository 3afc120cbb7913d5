"""Take the pictures of docs/CONSOLE.md again: every page of the console in both themes, of a real cluster under load.

    PYTHONPATH=tests:. python scripts/take_console_pictures.py docs/images

It takes some two minutes, Chromium and its driver. Look at each picture before it is committed.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from kit.browser import Browser, chromium
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import wait_until
from kit.flight_rows import FLIGHT_SCHEMA, LATER_SCHEMA

from duramen.blocking import Database

_LOADED_S: Final = 30
"""So long is written before the first picture: the graphs are of the last hour."""

_SIZE: Final = (1280, 860)

_KEY: Final = '["UA",1545]'

_PAGES: Final = {
    "table": ("#/table/flights", "document.querySelector('#page').innerText.includes('equal at every tier')"),
    "key": (
        f"#/key/flights/fields/{quote(_KEY, safe='')}",
        "document.querySelector('#page').innerText.includes('N14228')",
    ),
    "log": ("#/log/flights/0", "document.querySelectorAll('#page tbody tr').length > 10"),
    "query": ("#/query/flights", "document.querySelector('form.ask')"),
    "jobs": ("#/jobs", "document.querySelectorAll('.jobs tbody tr').length > 0"),
    "changes": ("#/changes", "document.querySelector('#page').innerText.includes('flights')"),
}
"""Of each page: its address, and when there is something to be seen."""

_PAGES_OF_USERS: Final = {
    "users": ("#/users", "document.querySelector('#page').innerText.includes('alice')"),
    "audit": ("#/audit", "document.querySelector('#page').innerText.includes('alice')"),
}

_USERS: Final = {"alice": ("read flights",), "loader": ("read,write flights", "read orders"), "prometheus": ("read *",)}


@contextmanager
def _load(database: Database) -> Iterator[None]:
    """Writes and reads, now more and now less, while the block runs."""
    ends = threading.Event()

    def work() -> None:
        flights = database.table("flights", row=LATER_SCHEMA)
        orders, draw = database.table("orders"), random.Random(7)
        rate = 20
        while not ends.wait(0.1):
            rate = min(60, max(4, rate + draw.randint(-5, 5)))
            flights.put_many(_flights(draw, rate))
            orders.put_many({b"eu:%04d" % draw.randrange(5000): b'{"seats":%d}' % each for each in range(rate // 3)})
            orders.get(b"eu:%04d" % draw.randrange(5000))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _flights(draw: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "carrier": draw.choice(("UA", "DL", "B6", "AA")),
            "flight": draw.randint(1, 2000),
            "tailnum": f"N{draw.randint(10_000, 10_400)}",
            "dep_delay": float(draw.randint(-10, 90)),
            "gate": f"{draw.choice('ABC')}{draw.randint(1, 30)}",
        }
        for _ in range(count)
    ]


def _fill(database: Database) -> None:
    """The tables, their first rows, and users."""
    flights = database.create_table(
        "flights",
        partitions=6,
        replicas=2,
        row=FLIGHT_SCHEMA,
        key=("carrier", "flight"),
        indexes={"by_tail": ("tailnum", "dep_delay")},
        history="30d",
    )
    database.create_table("orders", partitions=4, replicas=2)
    for delay in (3.0, 17.0, 41.0):
        flights.put({"carrier": "UA", "flight": 1545, "tailnum": "N14228", "dep_delay": delay})
    flights.alter(row=LATER_SCHEMA)
    database.table("flights", row=LATER_SCHEMA).put_many(_flights(random.Random(3), 2000))


class _Camera:
    """Takes each page in both themes."""

    def __init__(self, browser: Browser, base: str, folder: Path) -> None:
        self.browser = browser
        self.base = base
        self.folder = folder

    def go(self, fragment: str) -> None:
        self.browser.open("about:blank")
        self.browser.open(f"{self.base}/{fragment}")
        self.browser.wait("document.body.dataset.link === 'live'")

    def take(self, name: str) -> None:
        for theme in ("dark", "light"):
            media = {"name": "prefers-color-scheme", "value": theme}
            self.browser.protocol("Emulation.setEmulatedMedia", features=[media])
            time.sleep(0.5)  # until it is drawn, with its transitions
            (self.folder / f"console-{name}-{theme}.png").write_bytes(self.browser.screenshot())


def _ask_for_plan(browser: Browser, verb: str, **fields: str) -> None:
    """Fill in the form of a verb, and have its plan shown."""
    browser.wait("document.querySelectorAll('.verb option').length > 10")
    browser.script(
        "const verb = document.querySelector('.verb');"
        "verb.value = arguments[0]; verb.dispatchEvent(new Event('change'))",
        verb,
    )
    for name, value in fields.items():
        browser.write(f".value-{name}", value)
    browser.script("document.querySelector('.begin-form').requestSubmit()")
    browser.wait("document.querySelectorAll('.ask-first tbody tr').length > 0")


def _take_night(camera: _Camera, cluster: ClusterProcess) -> None:
    browser = camera.browser
    camera.go("")
    browser.wait("document.querySelectorAll('#partitions .line[d]').length > 6")
    camera.take("night")
    cluster.pause("n2")
    browser.wait("document.querySelector('.node.lost h3')?.innerText === 'n2'")
    browser.wait("document.querySelector('.node.lost').innerText.includes('ago')")
    camera.take("night-trouble")
    cluster.go_on("n2")
    camera.go("#/tables")
    browser.wait("document.querySelectorAll('table.heat tbody tr').length > 6")
    browser.wait("!document.querySelector('table.heat').innerText.includes('?')")
    camera.take("tables")


def _take_others(camera: _Camera, job: int) -> None:
    browser = camera.browser
    camera.go(f"#/jobs/{job}")
    browser.wait("document.querySelector('.job-detail h2')?.innerText?.endsWith('done')")
    camera.take("job")
    camera.go("#/jobs")
    _ask_for_plan(browser, "drain", node="n2")
    camera.take("plan")
    for name, (fragment, seen) in _PAGES.items():
        camera.go(fragment)
        browser.wait(seen)
        if name == "query":
            browser.script("document.querySelector('[data-kind=find]').click()")
            browser.script("document.querySelector('.where').value = 'tailnum = [\"N10100\", \"N10200\"]'")
            browser.script("document.querySelector('form.ask').requestSubmit()")
            browser.wait("document.querySelectorAll('.entries tbody tr').length > 3")
        camera.take(name)


def _of_a_cluster(folder: Path, browser: Browser, images: Path) -> None:
    cluster = ClusterProcess(folder / "cluster", arguments=["--http-port", "0"])
    try:
        assert cluster.started is not None
        with cluster.connect(timeout=60) as database:
            _fill(database)
            with _load(database):
                began = time.monotonic()
                wait_until(lambda: time.monotonic() - began > _LOADED_S, seconds=2 * _LOADED_S)
                base = f"http://127.0.0.1:{cluster.started['http_port']}"
                camera = _Camera(browser, base, images)
                _take_night(camera, cluster)
            cluster.wait_ready("flights")
            cluster.run("admin", "snapshot", "flights")
            _take_others(camera, max(each["job"] for each in cluster.rows("admin", "jobs")))
    finally:
        cluster.close()


def _of_users(folder: Path, browser: Browser, images: Path) -> None:
    """A server that is alone, as it needs no certificates for users."""
    token = folder / "ops.token"
    first = ["--first-user", "ops", "--token-file", str(token), "--http-port", "0"]
    server = ServerProcess(folder / "single", log=folder / "log", arguments=first)
    try:
        at, base = server.target, f"http://127.0.0.1:{server.announcement['http_port']}"
        ops = ("--token-file", str(token))
        for name, grants in _USERS.items():
            granted = [word for grant in grants for word in ("--grant", grant)]
            run_here(*ops, "user", "add", name, "--token-file", str(folder / f"{name}.token"), *granted, at=at)
        run_here(*ops, "grant", "ops", "read", "_duramen_audit", at=at)
        run_here(*ops, "quota", "set", "--user", "alice", "--calls", "100", at=at)
        alice = ("--token-file", str(folder / "alice.token"))
        for name in ("flights", "orders"):
            run_here(*ops, "table", "create", name, at=at)
            run_here(*alice, "get", name, "k", at=at)
            run_here(*alice, "table", "drop", name, "--yes", at=at)
        browser.open(base)
        browser.script("sessionStorage.setItem('duramen-token', arguments[0])", token.read_text().strip())
        camera = _Camera(browser, base, images)
        for name, (fragment, seen) in _PAGES_OF_USERS.items():
            camera.go(fragment)
            browser.wait(seen)
            camera.take(name)
    finally:
        server.close()


def main() -> None:
    """Take them into the folder that is named."""
    images = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as named, chromium(Path(named)) as browser:
        browser.resize(*_SIZE)
        _of_a_cluster(Path(named), browser, images)
        _of_users(Path(named), browser, images)


if __name__ == "__main__":
    main()
