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
from kit.deadlines import patience_s
from kit.http import http_call

from duramen.server.roles.all_in_one import SingleServer
from log_tier.catalog.commands import StartJob

pytestmark = pytest.mark.embedded_log_only  # what a browser shows of a server is the same with every log

HOSTILE = '<img src=x onerror="document.title=window.harmed=1">'
STEPS = "document.querySelectorAll('.plan-steps tbody tr').length"
BEGIN = "document.querySelector('.ask-first .primary')"
CAN_BEGIN = f"{BEGIN} && !{BEGIN}.hidden"
# What is shown may change on a busy machine: a replica falls behind, and another one has less to do. An operator then
# presses this button.
LOOK_AGAIN = "document.querySelector('.ask-first .look-again:not([hidden])')"
HAS_BEGUN = "location.hash.startsWith('#/jobs/') && document.querySelector('.ask-first') === null"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Three nodes with two tables, each partition at two of them."""
    running = ClusterProcess(tmp_path_factory.mktemp("cluster") / "data", arguments=["--http-port", "0"])
    try:
        with running.connect() as db:
            db.create_table("flights", partitions=3, replicas=2).put(b"k", b"v")
            db.create_table("orders", partitions=1, replicas=1)
        yield running
    finally:
        running.close()


@pytest.fixture
def cluster(running: ClusterProcess) -> ClusterProcess:
    """A plan is made of the replicas that are ready: whatever test comes before, they are, and one that is shown stays
    as it is.
    """
    running.wait_nodes("alive", "n1", "n2", "n3")
    running.wait_ready("flights")
    running.wait_ready("orders")
    return running


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


def shows(browser: Browser, steps: int) -> None:
    """The dialog has a plan of so many steps, and a button that begins it."""
    browser.wait(f"({LOOK_AGAIN}?.click(), {STEPS} === {steps} && {CAN_BEGIN})")


def begins(browser: Browser) -> None:
    """What is shown begins, where it has not yet: the button is pressed, also for the plan that it became meanwhile."""
    browser.wait(
        f"({LOOK_AGAIN}?.click(), {CAN_BEGIN} && {BEGIN}.click(), document.querySelector('.ask-first') === null)"
    )


def rows_of(subject: str) -> str:
    """How many jobs of a kind and subject the page shows."""
    return (
        f"[...document.querySelectorAll('.jobs tbody tr')].filter((row) => row.innerText.includes('{subject}')).length"
    )


def begun(cluster: ClusterProcess, kind: str, subject: str = "") -> list[int]:
    """The numbers of the jobs of a kind that the cluster knows."""
    jobs = cluster.rows("admin", "jobs")
    return sorted(each["job"] for each in jobs if each["kind"] == kind and subject in ("", each["subject"]))


def test_a_plan_is_shown_and_begun_and_followed(browser: Browser, cluster: ClusterProcess) -> None:
    before = begun(cluster, "snapshot", "flights")
    browser.open(address(cluster, "jobs"))
    asks(browser, "take_snapshots", table="flights")
    shows(browser, 3)
    assert "snapshot flights" in browser.text(".plan-name")
    assert "made at version" in browser.text(".plan-cost")
    browser.press("\ue00c")  # Escape
    browser.wait("document.querySelector('.ask-first') === null")
    assert begun(cluster, "snapshot", "flights") == before, "a plan that is shown begins nothing"
    asks(browser, "take_snapshots", table="flights")
    shows(browser, 3)
    browser.wait(f"{BEGIN} === document.activeElement")
    browser.press("\ue007")  # Enter
    browser.wait(f"{HAS_BEGUN} || {LOOK_AGAIN}")
    begins(browser)
    browser.wait(HAS_BEGUN)
    browser.wait("document.querySelector('.job-detail h2')?.innerText?.endsWith('done')")
    assert "3 of 3 tasks are done" in browser.text(".job-detail")
    cut = "[...document.querySelectorAll('.tasks td')].filter((each) => each.scrollWidth > each.clientWidth)"
    browser.resize(900, 900)
    whole = browser.script(f"return {cut}.map((each) => each.innerText)")
    browser.resize(1280, 900)
    assert whole == [], "what became of each task is read whole"
    browser.wait(f"{rows_of('snapshot flights')} === {len(before) + 1}")


def test_two_consoles_press_the_same_button(browser: Browser, cluster: ClusterProcess, tmp_path: Path) -> None:
    """Both show the plan; the first one begins it, and the second one is refused, looks again, and may say yes anew."""
    before, rows = len(begun(cluster, "snapshot", "orders")), rows_of("snapshot orders")
    with chromium(tmp_path) as other:
        for each in (browser, other):
            each.open(address(cluster, "jobs"))
            asks(each, "take_snapshots", table="orders")
            shows(each, 1)
        other.script(f"{BEGIN}.click(); {BEGIN}?.click()")  # twice, too
        other.wait(f"{HAS_BEGUN} || {LOOK_AGAIN}")
        begins(other)
        other.wait(HAS_BEGUN)
        other.wait("document.querySelector('.job-detail h2')?.innerText?.endsWith('done')")
        browser.script(f"{BEGIN}.click()")
        browser.wait("document.querySelector('.ask-problem')?.innerText?.includes('the catalog changed')")
        assert browser.script(f"return {BEGIN}.hidden"), "the plan that was shown cannot be begun any more"
        browser.wait(f"{rows} === {before + 1}")
        browser.script(f"{LOOK_AGAIN}.click()")
        browser.wait(f"{CAN_BEGIN} && document.querySelector('.ask-problem').innerText === '' || {LOOK_AGAIN}")
        begins(browser)
        browser.wait(f"{rows} === {before + 2}")


def test_what_destroys_is_said_and_not_begun_by_enter(browser: Browser, cluster: ClusterProcess) -> None:
    browser.open(address(cluster, "jobs"))
    asks(browser, "retire", node="n3")
    browser.wait("document.querySelector('.plan-destroys')")
    assert "the node is forgotten, and what it holds is deleted" in browser.text(".plan-destroys")
    assert browser.text(".ask-first .danger").startswith("begin: retire node n3")
    browser.wait("document.activeElement?.innerText === 'cancel'")
    browser.press("\ue007")  # Enter is on `cancel`
    browser.wait("document.querySelector('.ask-first') === null")
    assert begun(cluster, "retire") == []


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
        shows(browser, 1)
        assert "n2" not in browser.text(".plan-steps"), "work goes to nodes that are there"
        browser.press("\ue00c")
        asks(browser, "drain", node="n2")
        browser.wait(f"({LOOK_AGAIN}?.click(), {CAN_BEGIN})")
        browser.press("\ue00c")
    finally:
        cluster.go_on("n2")
    browser.wait("document.querySelector('.healing')?.hidden")


def test_healing_is_switched_off_and_on(browser: Browser, cluster: ClusterProcess) -> None:
    shown = "document.querySelector('.healing').innerText.includes('Healing is switched off')"
    rows, before = rows_of("automate"), len(begun(cluster, "automate"))
    for done, off in enumerate((True, False), start=1):
        browser.open("about:blank")
        browser.open(address(cluster, "jobs"))
        browser.wait("document.querySelectorAll('.verb option').length > 10")
        if not off:
            browser.wait(shown)
        browser.script(
            "const verb = document.querySelector('.verb');"
            "verb.value = 'automate'; verb.dispatchEvent(new Event('change'));"
            "document.querySelector('.value-what').value = 'heal';"
            "document.querySelector('.value-off').checked = arguments[0];"
            "document.querySelector('.begin-form').requestSubmit()",
            off,
        )
        browser.wait(f"({LOOK_AGAIN}?.click(), {CAN_BEGIN})")
        begins(browser)
        browser.wait(f"{rows} === {before + done}")
        browser.wait(shown if off else "document.querySelector('.healing').hidden")
    assert len(begun(cluster, "automate")) == before + 2


def test_a_server_that_goes_while_it_is_asked(browser: Browser, tmp_path: Path) -> None:
    """Whether a job has begun is not known then, and the page does not say otherwise."""
    cluster = ClusterProcess(tmp_path / "data", nodes=1, arguments=["--http-port", "0"])
    try:
        with cluster.connect() as db:
            db.create_table("flights", partitions=1)
        cluster.wait_ready("flights")
        browser.open(address(cluster, "jobs"))
        asks(browser, "take_snapshots", table="flights")
        shows(browser, 1)
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
    for _ in range(2):
        cluster.run("admin", "snapshot", "orders", "--timeout", str(patience_s(60)))
    browser.open(address(cluster, ""))
    browser.wait("document.body.dataset.link === 'live' && document.querySelectorAll('#pages a').length >= 5")
    for key, page in (("c", "changes"), ("u", "users"), ("a", "audit"), ("j", "jobs")):
        browser.press("g", key)
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
