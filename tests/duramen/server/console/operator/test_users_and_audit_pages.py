"""Users, quotas, the audit and what changed in a real browser: each user is shown what it may see, and who did what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kit.browser import Browser
from kit.client.audited_server import audit_rows
from kit.client.with_users import WithUsers
from kit.deadlines import until_true
from kit.http import http_call

from duramen.server.roles.all_in_one import SingleServer
from log_tier.audit.audit_event import AuditEvent
from log_tier.audit.audit_row import AuditRow
from log_tier.audit.row_format import row_key, row_value
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.identifiers import AUDIT_TABLE, Partition
from log_tier.trust.trust_commands import AddRole, AssignRole, SetQuota
from router.data.requests import WritePart, WriteResult

pytestmark = pytest.mark.embedded_log_only  # what a browser shows of a server is the same with every log


NOTE = "document.querySelector('#page .note-line')"


def opened_as(browser: Browser, server: SingleServer, token: str, page: str) -> None:
    browser.open(f"http://127.0.0.1:{server.http_port}/")
    browser.script("sessionStorage.setItem('duramen-token', arguments[0])", token)
    browser.open("about:blank")
    browser.open(f"http://127.0.0.1:{server.http_port}/#/{page}")
    browser.wait("document.body.dataset.link === 'live'")


async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """The browser, while the server answers in this loop."""
    return await asyncio.to_thread(work, *arguments)


async def calls_of(server: SingleServer, token: str, *calls: tuple[str, dict[str, Any]]) -> list[int]:
    """The statuses of some calls of a page."""
    found = []
    for method, request in calls:
        status, _ = await http_call(server.http_port, {"format": 1, "method": method, "request": request}, token)
        found.append(status)
    return found


async def test_users_roles_and_quotas(browser: Browser, server: SingleServer) -> None:
    users = WithUsers(server)
    root = await users.add_user("root", "admin *", "read,write *", "read _duramen_audit")
    alice = await users.add_user("alice", "read orders --key eu:", password="correct horse battery")
    await users.submit(lambda seen: AddRole("readers", seen, ("read ships*",)))
    await users.submit(lambda seen: AssignRole("alice", seen, "readers"))
    await users.submit(lambda seen: SetQuota("user:alice", seen, calls_s=100, bytes_in_s=1 << 20))

    def as_root() -> None:
        opened_as(browser, server, root, "users")
        browser.wait("document.querySelector('.users-list')")
        assert browser.text("#page .page-title") == "2 users, 1 role, 1 quota"
        row = browser.text(".users-list tbody tr:nth-child(1)")
        assert "read orders --key eu:" in row
        assert "readers" in row
        assert "password" in row
        assert users.token_ids["alice"] in row
        text: str = browser.script("return document.body.innerText")
        for secret in (alice.split("_")[2], root.split("_")[2], "correct horse", "argon2"):
            assert secret not in text
        assert "100 calls /s, 1.0 MiB/s in" in browser.text(".quotas-list")

    def as_alice() -> None:
        opened_as(browser, server, alice, "users")
        browser.wait("document.querySelector('#page .page-title')?.innerText === 'you'")
        page = browser.text("#page")
        assert "You are alice, by token" in page
        assert "read ships*" in page, "what its role grants"
        assert "root" not in page
        browser.wait("document.querySelector('.users-list') === null")

    await in_thread(as_root)
    await in_thread(as_alice)


async def test_the_audit_with_its_filters(browser: Browser, server: SingleServer) -> None:
    users = WithUsers(server)
    root = await users.add_user("root", "admin *", "read _duramen_audit")
    alice = await users.add_user("alice", "read orders")
    refused: tuple[str, dict[str, Any]] = ("Admin/Start", {"rebalance": {}})
    assert await calls_of(server, alice, refused, ("Admin/Jobs", {})) == [403, 403]
    assert await calls_of(server, root, ("Tables/Create", {"name": "ships", "partitions": 1})) == [200]

    async def are_written() -> bool:
        rows = await audit_rows(server.data_plane)
        return {("alice", "Admin/Start"), ("alice", "Admin/Jobs"), ("root", "Tables/Create")} <= {
            (row["user"], row["action"]) for row in rows
        }

    await until_true(are_written)
    rows = "[...document.querySelectorAll('.audit-rows tbody tr')].map((row) => row.innerText)"

    def as_root() -> None:
        opened_as(browser, server, root, "audit")
        browser.wait(
            f"{rows}.some((row) => row.includes('Tables/Create')) && {rows}.some((row) => row.includes('alice'))"
        )
        browser.write(".audit-user", "alice")
        browser.script("document.querySelector('#page form').requestSubmit()")
        browser.wait(f"{rows}.length > 0 && {rows}.every((row) => row.includes('alice'))")
        browser.write(".audit-action", "start")
        browser.script("document.querySelector('.audit-refused').click()")
        browser.wait(f"{rows}.length === 1 && {rows}[0].includes('Admin/Start') && {rows}[0].includes('refused')")
        assert "what is missing is 'admin *'" in browser.text(".audit-rows")
        browser.script(
            "document.querySelector('.audit-user').value = document.querySelector('.audit-action').value = ''"
        )
        browser.script("document.querySelector('.audit-refused').click()")
        browser.write(".audit-table", "ships")
        browser.script("document.querySelector('#page form').requestSubmit()")
        browser.wait(f"{rows}.length === 1 && {rows}[0].includes('Tables/Create')")

    def as_alice() -> None:
        opened_as(browser, server, alice, "audit")
        browser.wait(
            "document.querySelector('#page .note-line')?.innerText.includes('it takes the grant read _duramen_audit')"
        )
        assert browser.script(f"return {rows}") == []

    await in_thread(as_root)
    await in_thread(as_alice)


async def audited(server: SingleServer, *events: tuple[int, str, str]) -> None:
    """Rows as servers write them, each of a time, a user and an action."""
    table = await server.data_plane.find_table(AUDIT_TABLE, timeout=60.0)
    keys, values = [], []
    for sequence, (time_ms, user, action) in enumerate(events):
        row = AuditRow(AuditEvent("read", "allowed", user=user, action=action), None, 0, sequence, time_ms, 0.0)
        keys.append(row_key(row, "n1", "0123abcd"))
        values.append(row_value(row, "n1"))
    part = WritePart(table.partition(Partition(0)), encode_batch(Columns(keys, values), producer_id=1, sequence=0))
    (result,) = await server.data_plane.write([part], timeout=60.0)
    assert isinstance(result, WriteResult), result


async def test_the_audit_goes_on_to_older_rows(browser: Browser, server: SingleServer) -> None:
    users = WithUsers(server)
    root = await users.add_user("root", "admin *", "read _duramen_audit")
    assert await calls_of(server, root, ("Tables/Create", {"name": "ships", "partitions": 1})) == [200]

    async def is_there() -> bool:
        return bool(await audit_rows(server.data_plane))

    await until_true(is_there)
    now_ms = SYSTEM_CLOCK.wall_ms()
    # The one row of bob is behind 3,300 others: more than are looked through for an answer.
    of_alice = [(now_ms - 1_000 * number, "alice", f"call {number}") for number in range(1, 3_301)]
    await audited(server, (now_ms - 7_200_000, "bob", "the oldest"), *of_alice)
    calls = "[...document.querySelectorAll('.audit-rows tbody tr')].map((row) => row.children[3].innerText)"
    turns = "[...document.querySelectorAll('.turns button')].map((each) => each.disabled)"

    def looked() -> None:
        opened_as(browser, server, root, "audit")
        browser.press("s")  # the last day
        browser.write(".audit-user", "alice")
        browser.script("document.querySelector('#page form').requestSubmit()")
        browser.wait(f"{calls}.length === 200 && {calls}[0] === 'call 1' && {calls}[199] === 'call 200'")
        assert browser.script(f"return {turns}") == [True, False], "there is nothing newer, and something older"
        browser.script("document.activeElement.blur()")
        browser.press("p")
        browser.wait(f"{calls}.length === 200 && {calls}[0] === 'call 201' && {calls}[199] === 'call 400'")
        browser.wait(f"{NOTE}.innerText.includes('page 2; there are older ones')")
        browser.press("n")
        browser.wait(f"{calls}[0] === 'call 1'")
        browser.script("document.querySelector('.audit-user').value = 'bob'")
        browser.script("document.querySelector('#page form').requestSubmit()")
        browser.wait(f"{NOTE}.innerText === '0 rows of 3,000; there are older ones.'")
        browser.script("document.querySelectorAll('.turns button')[1].click()")
        browser.wait(f"{calls}.join() === 'the oldest'")
        assert browser.script(f"return {turns}") == [False, True], "that was the last of them"

    await in_thread(looked)


async def test_what_changed_and_who_did_it(browser: Browser, server: SingleServer) -> None:
    users = WithUsers(server)
    root = await users.add_user("root", "admin *", "read _duramen_audit")
    alice = await users.add_user("alice", "read *")
    created = ("Tables/Create", {"name": "ships", "partitions": 2})
    assert await calls_of(server, root, created, ("Users/Grant", {"to": "alice", "grant": "write ships"})) == [200, 200]

    async def is_written() -> bool:
        return any(row["action"] == "Users/Grant" for row in await audit_rows(server.data_plane))

    await until_true(is_written)
    rows = "[...document.querySelectorAll('.changes tbody tr')].map((row) => row.innerText)"

    def as_root() -> None:
        opened_as(browser, server, root, "changes")
        browser.wait(f"{rows}.some((row) => row.includes('create table ships partitions=2') && row.includes('root'))")
        browser.wait(f"{rows}.some((row) => row.includes('grant alice grant=write ships') && row.includes('root'))")
        browser.write(".find-changes", "grant alice")
        browser.wait(f"{rows}.length === 1")
        browser.open(f"http://127.0.0.1:{server.http_port}/#/")
        browser.wait("document.querySelector('#changed-list')?.innerText.includes('create table ships')")
        browser.wait("document.querySelector('#tiles .events')?.getAttribute('d')")
        text: str = browser.script("return document.body.innerText")
        assert root.split("_")[2] not in text

    def as_alice() -> None:
        opened_as(browser, server, alice, "changes")
        browser.wait(f"{NOTE}?.innerText.startsWith('Not shown to you')")
        assert browser.script(f"return {rows}") == []
        browser.open(f"http://127.0.0.1:{server.http_port}/#/")
        browser.wait("document.querySelector('#tiles .value')")
        browser.wait("performance.getEntriesByType('resource').some((each) => each.name.endsWith('/console/call'))")
        assert browser.script("return document.querySelector('#changed').hidden")

    await in_thread(as_root)
    await in_thread(as_alice)


async def test_a_cluster_without_users(browser: Browser, server: SingleServer) -> None:
    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/#/users")
        browser.wait("document.querySelector('#page .note-line')?.innerText.startsWith('The cluster has no users')")
        browser.press("g", "a")
        browser.wait("document.querySelector('#page .note-line')?.innerText.startsWith('There is no audit yet')")
        assert browser.script("return document.querySelector('.audit-rows tbody').rows.length") == 0

    await in_thread(looked)
