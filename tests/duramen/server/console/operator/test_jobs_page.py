"""Jobs and their buttons in a real browser: a plan first, one job of two who press, and nothing for who may not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.browser import Browser, chromium
from kit.client.with_users import WithUsers
from kit.cluster.cluster_process import ClusterProcess
from kit.http import http_call

from duramen.server.roles.all_in_one import SingleServer
from log_tier.catalog.commands import StartJob

pytestmark = pytest.mark.embedded_log_only  # what a browser shows of a server is the same with every log

HOSTILE = '<img src=x onerror="document.title=window.harmed=1">'
STEPS = "document.querySelectorAll('.plan-steps tbody tr').length"
BEGIN = "document.querySelector('.ask-first .primary')"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Three nodes with two tables, each partition at two of them."""
    running = ClusterProcess(tmp_path_factory.mktemp("cluster") / "data", arguments=["--http-port", "0"])
    try:
        with running.connect() as db:
            db.create_table("flights", partitions=3, replicas=2).put(b"k", b"v")
            db.create_table("orders", partitions=1, replicas=1)
        # A plan is made of the replicas that are ready: one that is shown stays as it is.
        running.wait_ready("flights")
        running.wait_ready("orders")
        yield running
    finally:
        running.close()


def address(cluster: ClusterProcess, page: str) -> str:
    assert cluster.started is not None
    return f"http://127.0.0.1:{cluster.started['http_port']}/#/{page}"


def asks(browser: Browser, verb: str, **fields: str) -> None:
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
    browser.wait("document.querySelector('.ask-first')")


def jobs(browser: Browser) -> list[str]:
    found: list[str] = browser.script(
        "return [...document.querySelectorAll('.jobs tbody tr')].map((row) => row.innerText)"
    )
    return found


def test_a_plan_is_shown_and_begun_and_followed(browser: Browser, cluster: ClusterProcess) -> None:
    browser.open(address(cluster, "jobs"))
    asks(browser, "take_snapshots", table="flights")
    browser.wait(f"{STEPS} === 3")
    assert "snapshot flights" in browser.text(".plan-name")
    assert "made at version" in browser.text(".plan-cost")
    browser.press("\ue00c")  # Escape
    browser.wait("document.querySelector('.ask-first') === null")
    assert jobs(browser) == [], "a plan that is shown begins nothing"
    asks(browser, "take_snapshots", table="flights")
    browser.wait(f"{STEPS} === 3 && {BEGIN} === document.activeElement")
    browser.press("\ue007")  # Enter
    browser.wait("location.hash.startsWith('#/jobs/') && document.querySelector('.ask-first') === null")
    browser.wait("document.querySelector('.job-detail h2')?.innerText?.endsWith('done')")
    assert "3 of 3 tasks are done" in browser.text(".job-detail")
    browser.wait("document.querySelectorAll('.jobs tbody tr').length === 1")
    assert "snapshot flights" in jobs(browser)[0]


def test_two_consoles_press_the_same_button(browser: Browser, cluster: ClusterProcess, tmp_path: Path) -> None:
    """Both show the plan; the first one begins it, and the second one is refused, looks again, and may say yes anew."""
    with chromium(tmp_path) as other:
        for each in (browser, other):
            each.open(address(cluster, "jobs"))
            each.wait("document.querySelectorAll('.jobs tbody tr').length > 0")
            asks(each, "take_snapshots", table="orders")
            each.wait(f"{STEPS} === 1 && {BEGIN} && !{BEGIN}.hidden")
        before = len(jobs(browser))
        other.script(f"{BEGIN}.click(); {BEGIN}?.click()")  # twice, too
        other.wait("location.hash.startsWith('#/jobs/')")
        other.wait("document.querySelector('.job-detail h2')?.innerText?.endsWith('done')")
        browser.script(f"{BEGIN}.click()")
        browser.wait("document.querySelector('.ask-problem')?.innerText?.includes('the catalog changed, look again')")
        assert browser.script(f"return {BEGIN}.hidden"), "the plan that was shown cannot be begun any more"
        browser.wait(f"document.querySelectorAll('.jobs tbody tr').length === {before + 1}")
        browser.script(
            "[...document.querySelectorAll('.buttons button')].find((each) => each.innerText === 'look again').click()"
        )
        browser.wait(f"!{BEGIN}.hidden && document.querySelector('.ask-problem')?.innerText === ''")
        browser.script(f"{BEGIN}.click()")
        browser.wait(f"document.querySelectorAll('.jobs tbody tr').length === {before + 2}")


def test_what_destroys_is_said_and_not_begun_by_enter(browser: Browser, cluster: ClusterProcess) -> None:
    browser.open(address(cluster, "jobs"))
    asks(browser, "retire", node="n3")
    browser.wait("document.querySelector('.plan-destroys')")
    assert "the node is forgotten, and what it holds is deleted" in browser.text(".plan-destroys")
    assert browser.text(".ask-first .danger").startswith("begin: retire node n3")
    before = jobs(browser)
    browser.press("\ue007")  # Enter is on `cancel`
    browser.wait("document.querySelector('.ask-first') === null")
    assert jobs(browser) == before


def test_what_cannot_be_is_said(browser: Browser, cluster: ClusterProcess) -> None:
    browser.open(address(cluster, "jobs"))
    asks(browser, "move", table="flights", partition="0", source="n9", target="n1")
    browser.wait("document.querySelector('.ask-problem')?.innerText?.includes('n9')")
    assert browser.script(f"return {BEGIN}.hidden")
    browser.press("\ue00c")
    browser.script("document.querySelector('.value-partition').value = 'zero'")
    browser.script("document.querySelector('.begin-form').requestSubmit()")
    browser.wait("document.querySelector('.begin .bad').innerText === 'partition: zero is no whole number'")


def test_a_node_that_is_gone(browser: Browser, cluster: ClusterProcess) -> None:
    """The page says what it does not know and what waits, and its buttons work for the rest."""
    browser.open(address(cluster, "jobs"))
    cluster.pause("n2")
    try:
        browser.wait("document.querySelector('.healing')?.innerText?.includes('node n2 is lost for')")
        asks(browser, "set_replicas", table="orders", replicas="2")
        browser.wait(f"{STEPS} === 1")
        assert "n2" not in browser.text(".plan-steps"), "work goes to nodes that are there"
        browser.press("\ue00c")
        asks(browser, "drain", node="n2")
        browser.wait(f"{BEGIN} && !{BEGIN}.hidden")
        browser.press("\ue00c")
    finally:
        cluster.go_on("n2")
    browser.wait("document.querySelector('.healing')?.hidden")


def test_healing_is_switched_off_and_on(browser: Browser, cluster: ClusterProcess) -> None:
    for off, expected in ((True, "Healing is switched off"), (False, "")):
        browser.open("about:blank")
        browser.open(address(cluster, "jobs"))
        browser.wait("document.querySelectorAll('.verb option').length > 10")
        browser.script(
            "const verb = document.querySelector('.verb');"
            "verb.value = 'automate'; verb.dispatchEvent(new Event('change'));"
            "document.querySelector('.value-what').value = 'heal';"
            "document.querySelector('.value-off').checked = arguments[0];"
            "document.querySelector('.begin-form').requestSubmit()",
            off,
        )
        browser.wait(f"{BEGIN} && !{BEGIN}.hidden")
        browser.script(f"{BEGIN}.click()")
        browser.wait("document.querySelector('.ask-first') === null")
        if expected:
            browser.wait("document.querySelector('.healing').innerText.includes(arguments[0])", expected)
        else:
            browser.wait("document.querySelector('.healing').hidden")
    assert "automate" in " ".join(jobs(browser))


def test_a_server_that_goes_while_it_is_asked(browser: Browser, tmp_path: Path) -> None:
    """Whether a job has begun is not known then, and the page does not say otherwise."""
    cluster = ClusterProcess(tmp_path / "data", nodes=1, arguments=["--http-port", "0"])
    try:
        with cluster.connect() as db:
            db.create_table("flights", partitions=1)
        browser.open(address(cluster, "jobs"))
        asks(browser, "take_snapshots", table="flights")
        browser.wait(f"{STEPS} === 1")
    finally:
        cluster.close()
    browser.script(f"{BEGIN}.click()")
    browser.wait("document.querySelector('.ask-problem')?.innerText?.includes('not known whether it has begun')")
    assert browser.script(f"return {BEGIN}.hidden"), "nobody presses it again before they have looked"


async def test_who_may_not_sees_no_button_and_is_refused(browser: Browser, server: SingleServer) -> None:
    users = WithUsers(server)
    await users.add_user("root", "admin *", "read _duramen_audit")
    tokens = {
        "alice": await users.add_user("alice", "read *"),
        "tabea": await users.add_user("tabea", "admin orders"),
    }

    def looked(name: str) -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/#/jobs")
        browser.script("sessionStorage.setItem('duramen-token', arguments[0])", tokens[name])
        browser.open("about:blank")
        browser.open(f"http://127.0.0.1:{server.http_port}/#/jobs")
        browser.wait("document.querySelector('#page .note-line')?.innerText.startsWith('Not shown to you')")

    await asyncio.to_thread(looked, "alice")
    assert not await asyncio.to_thread(browser.script, "return document.querySelector('.begin-form')")
    start = {"format": 1, "method": "Admin/Start", "request": {"rebalance": {}}}
    status, answer = await http_call(server.http_port, start, tokens["alice"])
    assert (status, answer["code"]) == (403, "permission_denied")
    await asyncio.to_thread(looked, "tabea")
    await asyncio.to_thread(browser.wait, "document.querySelector('.begin-form')")
    status, answer = await http_call(server.http_port, start, tokens["tabea"])
    assert status == 403, "of one table is not of the cluster"


async def test_hostile_names_stay_text_also_on_a_telephone(browser: Browser, server: SingleServer) -> None:
    catalog = server.data_plane.catalog
    for number in range(3):
        await catalog.submit(StartJob(HOSTILE, f"{HOSTILE} {number}", (), {}))

    def looked() -> None:
        browser.resize(400, 800)
        try:
            for page in ("jobs", "jobs/0", "changes", "users", "audit", "jobs/%3Cscript%3E"):
                browser.open("about:blank")
                browser.open(f"http://127.0.0.1:{server.http_port}/#/{page}")
                browser.wait("document.querySelector('#page .note-line')?.innerText.length > 20")
                wide = browser.script("return [document.documentElement.scrollWidth, innerWidth]")
                assert wide[0] <= wide[1], f"{page}: nothing is beyond the edge"
                assert browser.script("return [document.querySelector('#page img'), window.harmed]") == [None, None]
            browser.open(f"http://127.0.0.1:{server.http_port}/#/changes")
            browser.wait("document.querySelectorAll('.changes tbody tr').length >= 3")
            assert HOSTILE in browser.text(".changes")
        finally:
            browser.resize(1280, 900)

    await asyncio.to_thread(looked)


def test_by_the_keyboard(browser: Browser, cluster: ClusterProcess) -> None:
    browser.open(address(cluster, ""))
    browser.wait("document.body.dataset.link === 'live' && document.querySelectorAll('#pages a').length >= 5")
    for key, page in (("c", "changes"), ("u", "users"), ("a", "audit"), ("j", "jobs")):
        browser.press("g")
        browser.press(key)
        browser.wait("document.body.dataset.page === arguments[0]", page)
    browser.wait("document.querySelectorAll('.jobs tbody tr').length > 1")
    browser.press("j")
    browser.wait("/^#\\/jobs\\/\\d+$/.test(location.hash) && !document.querySelector('.job-detail').hidden")
    first: Any = browser.script("return location.hash")
    browser.press("j")
    browser.wait("location.hash !== arguments[0]", first)
    browser.press("k")
    browser.wait("location.hash === arguments[0]", first)
    browser.press("\ue00c")
    browser.wait("location.hash === '#/jobs' && document.querySelector('.job-detail').hidden")
    browser.press("b")
    browser.wait("document.activeElement === document.querySelector('.verb')")
    assert browser.script("return location.hash") == "#/jobs"
