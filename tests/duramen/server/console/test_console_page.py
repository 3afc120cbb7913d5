"""The page of the console in a real browser: a real server, its end, hostile names, users, keys, and themes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.browser import Browser
from kit.client.server_process import ServerProcess
from kit.client.with_users import WithUsers
from kit.cluster.cluster_process import ClusterProcess
from kit.event_stream import event_stream
from kit.held_port import HeldPort
from kit.http import http_get
from kit.seen_partitions import seen_partition
from kit.whole_server import observed_whole

from duramen.server.console.console_files import read_console_files
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.sight.observed import LogServerSeen, NodeSeen, Observed, PartitionStatus
from log_tier.trust.trust_commands import RevokeToken

pytestmark = pytest.mark.embedded_log_only  # what a browser shows of a server is the same with every log

HOSTILE = '<img src=x onerror="document.title=window.harmed=1">'
NAMES = "[...document.querySelectorAll('#partitions tbody tr[data-name]')].map((row) => row.dataset.name)"


async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """The browser, while the server answers in this loop."""
    return await asyncio.to_thread(work, *arguments)


def shows(server: SingleServer, monkeypatch: pytest.MonkeyPatch, *partitions: PartitionStatus, **facts: Any) -> None:
    """Have a server see what a test says."""
    sight = server.sight
    assert sight is not None

    async def observe() -> Observed:
        seen = replace(observed_whole(), partitions=partitions, uptime_s=sight.uptime_s(), now_ms=sight.now_ms())
        return replace(seen, **facts)

    monkeypatch.setattr(sight, "observe", observe)


def test_a_real_server_and_its_end(browser: Browser, tmp_path: Path) -> None:
    with HeldPort() as port:
        server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--http-port", str(port.number)])
        try:
            with server.connect() as db:
                table = db.create_table("flights", partitions=2)
                browser.open(f"http://127.0.0.1:{port.number}/")
                browser.wait("document.body.dataset.link === 'live'")
                browser.wait("document.querySelector('#word').innerText === 'All is well'")
                browser.wait(f"{NAMES}.includes('flights/0') && {NAMES}.includes('flights/1')")
                before = table.put(b"k", b"v")
                browser.script(
                    "document.querySelector(`tr[data-name='flights/${arguments[0]}']`).click()", before.partition
                )
                written = "document.querySelector('#detail').innerText.includes(`${arguments[0]} records`)"
                browser.wait(written, before.offset + 1)
                for _ in range(10):
                    done = table.put(b"k", b"v")
                browser.wait(written, done.offset + 1)
                browser.wait("document.querySelector('#tiles .line').getAttribute('d')")
                assert browser.script("return document.title") == "all is well · single n1"
            server.kill9()
            browser.wait("document.querySelector('#link').innerText.startsWith('NO ANSWER since ')")
            assert browser.script("return document.title").startswith("NO ANSWER")
            assert browser.text("#word").startswith("The server has not answered since "), "and not that all is well"
            browser.wait("!document.querySelector('#link').innerText.endsWith('for 0 s')")
            server.restart()
            browser.wait("document.body.dataset.link === 'live'")
            browser.wait(f"{NAMES}.includes('flights/0')")
        finally:
            server.close()


def test_a_server_that_stops_answering(browser: Browser, tmp_path: Path) -> None:
    """Its connection is open, and nothing comes: the page says so as soon as two events are missing."""
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--http-port", "0"])
    try:
        browser.open(f"http://127.0.0.1:{server.announcement['http_port']}/")
        browser.wait("document.body.dataset.link === 'live'")
        server.process.send_signal(19)
        browser.wait("document.querySelector('#link').innerText.startsWith('NO ANSWER since ')")
        assert browser.script("return document.querySelector('#link').title") == "nothing comes from the server"
        server.process.send_signal(18)
        browser.wait("document.body.dataset.link === 'live'")
    finally:
        server.process.send_signal(18)
        server.close()


async def test_hostile_names_stay_text(browser: Browser, server: SingleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = replace(
        seen_partition(0, 5, 2, table=HOSTILE, state="stopped"),
        reason=f"key {HOSTILE}\nevent: end\ndata: {{}}\n\n\x1b[2J",
    )
    node = NodeSeen(HOSTILE, HOSTILE, False, HOSTILE)
    shows(
        server,
        monkeypatch,
        stopped,
        seen_partition(1, 5, 2, table="</script><script>harmed=1</script>"),
        nodes=(node,),
        log_server=LogServerSeen(HOSTILE, False, HOSTILE),
        name=HOSTILE,
    )

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/")
        browser.wait(f"{NAMES}.length === 2")
        browser.wait("document.querySelectorAll('#partitions .plot .line').length === 2")
        browser.press("j")
        browser.wait("!document.querySelector('#detail').hidden")
        assert HOSTILE in browser.text("#detail")
        assert HOSTILE in browser.text("#word")
        assert HOSTILE in browser.text(".node:not(.log-server)")
        assert HOSTILE in browser.text(".log-server")
        assert HOSTILE in browser.script("return document.title"), "as text, which nobody obeys"
        assert browser.script("return window.harmed ?? 'whole'") == "whole"
        assert browser.script("return document.querySelectorAll('img').length") == 1, "the page's own"
        assert browser.script("return document.querySelectorAll('script').length") == 1

    await in_thread(looked)


async def test_what_needs_somebody_is_first(
    browser: Browser, server: SingleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows(
        server,
        monkeypatch,
        seen_partition(0, 5, 5),
        replace(seen_partition(1, 900, 100, state="behind"), lag_s=75.0),
        seen_partition(2, 50_000, 50_000),
        replace(seen_partition(3, 5, 5, state="stopped"), reason="its file is damaged"),
        log=None,
        disk=None,
        role="node",
        name="n7",
    )

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/")
        browser.wait(f"{NAMES}.length === 4")
        assert browser.script(f"return {NAMES}") == ["orders/3", "orders/1", "orders/0", "orders/2"]
        assert browser.text("#word").startswith("NOT READY: orders/3 stopped here (its file is damaged)")
        assert browser.text("#first").startswith("Do first: do what the reason says")
        assert "orders/1" in browser.text("#troubles")
        assert "1 unreadable, 1 behind" in browser.text("#counts")
        tiles = browser.script("return [...document.querySelectorAll('.tile')].map((each) => each.innerText)")
        known = {each.split("\n")[0].lower(): each for each in tiles}
        for name in ("sync p99", "queue age", "disk free"):
            assert known[name].split("\n")[1] == "not known", known[name]
        assert known["lag in records"].split("\n")[1] == "800"
        browser.wait("document.querySelector(`tr[data-name='orders/1']`).innerText.includes('steady')")
        assert "75 s" in browser.text("tr[data-name='orders/1']")
        assert "never at this rate" in browser.text("tr[data-name='orders/1']")

    await in_thread(looked)


@pytest.mark.parametrize("alive", [True, False])
async def test_the_queue_of_a_log_in_another_process(
    browser: Browser, server: SingleServer, monkeypatch: pytest.MonkeyPatch, alive: bool
) -> None:
    said = LogServerSeen("a:1", alive, "", queue_age_s=2.5, queued_batches=3, queued_bytes=1500, sync_p99_s=0.25)
    shows(server, monkeypatch, seen_partition(0, 5, 5), log=None, log_place="server", log_server=said, role="node")

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/")
        browser.wait(f"{NAMES}.length === 1")
        tiles = browser.script("return [...document.querySelectorAll('.tile')].map((each) => each.innerText)")
        known = {each.split("\n")[0].lower(): each.split("\n")[1:3] for each in tiles}
        if alive:
            assert known["sync p99"] == ["250 ms", "as the log's server said lately"]
            assert known["queue age"] == ["2.5 s", "3 waiting, 1.5 KiB; as the log's server said lately"]
        else:
            assert known["sync p99"] == known["queue age"] == ["not known", "the log's server does not answer"]

    await in_thread(looked)


async def test_a_thousand_partitions(browser: Browser, server: SingleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [seen_partition(number, 10**9 + number, 10**9 + number) for number in range(1_000)]
    shows(server, monkeypatch, *rows)

    def looked() -> None:
        browser.protocol("Network.enable")
        browser.open(f"http://127.0.0.1:{server.http_port}/")
        browser.wait("document.querySelector('#counts').innerText === '1,000 partitions, all well'")
        browser.wait("document.querySelector('#tiles .hint').innerText")
        assert browser.script(f"return {NAMES}.length") < 60, "rows that are not seen are not there"
        browser.script("scrollTo(0, document.body.scrollHeight)")
        browser.wait(f"{NAMES}.includes('orders/999')")
        assert browser.script(f"return {NAMES}.length") < 60
        browser.script("scrollTo(0, 0)")
        browser.wait(f"{NAMES}.includes('orders/0')")
        browser.press("/")
        browser.write("#find", "orders/77")
        browser.wait(f"{NAMES}.length === 11")

    await in_thread(looked)


def first_files() -> set[str]:
    """The paths of what a browser loads before it shows the night page."""
    files, seen, found = read_console_files(), set[str](), {"/"}
    while found:
        path = found.pop()
        seen.add(path)
        text = files[path].body.decode()
        found |= {f"/console/{name}" for name in re.findall(r'from "\./(.*)";', text)}
        found |= set(re.findall(r'(?:href|src)="(/console/[^"]*)"', text))
        found -= seen
    return seen


async def test_the_first_picture_is_small(server: SingleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand partitions with offsets of a billion that are written to, and an hour of history: 300 kB in all."""
    rows = [replace(seen_partition(each, 10**9 + each, 10**9), lag_s=12.5) for each in range(1_000)]
    shows(server, monkeypatch, *rows)
    sizes = {path: len((await http_get(server.http_port, path))[2]) for path in first_files() | {"/console/night.js"}}
    async with event_stream(server.http_port) as events:
        whole = await events.next()
        while len(whole.data["rows"]) < 1_000:
            whole = await events.next()
    sizes["/events"] = whole.size
    sizes["/history"] = len((await http_get(server.http_port, "/history?since=-3600"))[2]) + 360 * 8 * 8
    assert sum(sizes.values()) <= 300_000, sizes


async def test_users_give_a_token(browser: Browser, server: SingleServer) -> None:
    users = WithUsers(server)
    await users.add_user("root", "admin *")
    token = await users.add_user("alice", "read orders")

    def gave(text: str) -> None:
        browser.write("#token", text)
        browser.script("document.querySelector('#token-form button').click()")

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/")
        browser.wait("document.querySelector('#login').open")
        assert "token" in browser.text("#token-why")
        gave("kein Schlüssel ☂")  # what no header can carry
        browser.wait("document.querySelector('#token-why').innerText.includes('no blanks')")
        assert browser.script("return document.querySelector('#login').open")
        browser.script("document.querySelector('#token').value = ''")
        gave("drm_nonsense")
        browser.wait("document.querySelector('#login').open")
        browser.wait("document.querySelector('#token-why').innerText.includes('none of this cluster')")
        gave(token)
        browser.wait("document.body.dataset.link === 'live' && !document.querySelector('#login').open")
        assert browser.script("return localStorage.getItem('duramen-token')") is None
        assert token not in browser.script("return location.href + document.body.innerText + document.cookie")
        browser.open(f"http://127.0.0.1:{server.http_port}/")  # the same tab knows it still
        browser.wait("document.body.dataset.link === 'live'")

    await in_thread(looked)
    await users.submit(lambda seen: RevokeToken("alice", seen, users.token_ids["alice"]))
    await in_thread(browser.wait, "document.querySelector('#login').open")
    assert "revoked" in await in_thread(browser.text, "#token-why")
    await in_thread(browser.script, "sessionStorage.clear()")


async def test_keys_and_themes(browser: Browser, server: SingleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(server, monkeypatch, *(seen_partition(number, 5, 5) for number in range(3)))

    def background() -> str:
        found: str = browser.script("return getComputedStyle(document.body).backgroundColor")
        return found

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/")
        browser.wait(f"{NAMES}.length === 3")
        selected = "document.querySelector('tr.selected')?.dataset.name"
        for key, name in (("j", "orders/0"), ("j", "orders/1"), ("k", "orders/0"), ("k", "orders/0")):
            browser.press(key)
            browser.wait(f"{selected} === arguments[0]", name)
        browser.press("\ue00c")  # Escape
        browser.wait(f"{selected} === undefined && document.querySelector('#detail').hidden")
        browser.press("?")
        browser.wait("document.querySelector('#help').open")
        browser.press("\ue00c")
        browser.wait("!document.querySelector('#help').open")
        browser.wait("document.querySelectorAll('#partitions .line[d]').length === 3")
        browser.press("w")
        browser.wait("document.querySelector('#span').innerText === 'last week'")
        asked = "performance.getEntriesByType('resource').some((each) => each.name.includes(arguments[0]))"
        browser.wait(asked, "/history?since=-604800&step=10080&of=orders%2F0")
        browser.press("w")
        browser.wait("document.querySelector('#span').innerText === 'last hour'")
        seen = {}
        for scheme in ("dark", "light"):
            browser.protocol("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            seen[scheme] = background()
        assert len(set(seen.values())) == 2, "as the system has it"
        for name in ("dark", "light"):
            browser.press("t")
            browser.wait("document.documentElement.dataset.theme === arguments[0]", name)
            assert background() == seen[name]
        browser.press("t")
        browser.wait("document.documentElement.dataset.theme === 'auto'")

    await in_thread(looked)


async def test_a_telephone(browser: Browser, server: SingleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [seen_partition(number, 10**8 * number, 5, table="a_long_name_of_a_table") for number in range(5)]
    shows(server, monkeypatch, *rows)

    def looked() -> None:
        browser.resize(360, 740)
        try:
            browser.open(f"http://127.0.0.1:{server.http_port}/")
            browser.wait(f"{NAMES}.length === 5")
            wide = browser.script("return [document.documentElement.scrollWidth, innerWidth]")
            assert wide[0] <= wide[1], "nothing is beyond the edge"
            assert "▲" not in browser.text("#partitions")
        finally:
            browser.resize(1280, 900)

    await in_thread(looked)


def test_a_cluster_one_of_whose_nodes_is_gone(browser: Browser, tmp_path: Path) -> None:
    """At the router's page: each node with what it says of itself, and the one that does not answer."""
    cluster = ClusterProcess(tmp_path / "data", nodes=3, arguments=["--http-port", "0"])
    cards = "[...document.querySelectorAll('.node:not(.log-server)')].map((each) => each.innerText)"
    try:
        assert cluster.started is not None
        with cluster.connect() as db:
            db.create_table("flights", partitions=3, replicas=2)
        browser.open(f"http://127.0.0.1:{cluster.started['http_port']}/")
        browser.wait(f"{cards}.length === 3 && {cards}.every((each) => each.includes('answers'))")
        browser.wait(f"{cards}.every((each) => each.includes('2 partitions') && each.includes('disk free'))")
        browser.wait("document.querySelector('#word').innerText === 'All is well'")
        browser.wait("document.querySelector('.log-server')?.innerText.includes('disk free')")
        assert "answers" in browser.text(".log-server")
        cluster.pause("n2")
        browser.wait("document.querySelector('.node.lost h3')?.innerText === 'n2'")
        assert "does not answer, for" in browser.text(".node.lost")
        assert "disk free" in browser.text(".node.lost"), "what it said before, with its age"
        browser.wait("document.querySelector('.node.lost').innerText.includes('ago')")
        browser.wait("document.querySelector('#verdict').innerText.includes('1 of 3 nodes do not answer: n2')")
        assert browser.script("return document.body.dataset.link") == "live", "the router answers"
        cluster.go_on("n2")
        browser.wait(f"{cards}.every((each) => each.includes('answers'))")
    finally:
        cluster.close()


async def test_brokers_of_kafka_are_not_known(
    browser: Browser, server: SingleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the page says so: they do not say how they are to who writes to them."""
    shows(server, monkeypatch, seen_partition(0, 5, 5), log=None, log_server=None, log_place="kafka", nodes=())

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/")
        browser.wait("document.querySelector('.log-server')?.innerText.includes('is Kafka')")
        assert "clocks and disks of its brokers: not known" in browser.text(".log-server")
        assert "the log is Kafka's" in browser.text("#tiles")
        assert "another process" not in browser.text("#tiles")

    await in_thread(looked)


async def test_a_browser_that_keeps_nothing_shows_it_all_the_same(browser: Browser, server: SingleServer) -> None:
    """Storage may be forbidden; then a theme and a token last as long as the page."""
    forbid = "Object.defineProperty(window, arguments[0], {get() { throw new DOMException('no', 'SecurityError') }})"
    source = "".join(forbid.replace("arguments[0]", f"'{each}Storage'") + ";" for each in ("local", "session"))

    def looked() -> None:
        made = browser.protocol("Page.addScriptToEvaluateOnNewDocument", source=source)
        try:
            browser.open(f"http://127.0.0.1:{server.http_port}/")
            browser.wait("document.body.dataset.link === 'live'")
            browser.press("t")
            browser.wait("document.documentElement.dataset.theme === 'dark'")
            assert browser.text("#theme") == "dark"
        finally:
            browser.protocol("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])

    await in_thread(looked)
