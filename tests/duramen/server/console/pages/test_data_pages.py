"""The pages of one table, one key, the log, and the query, in a real browser over a real server."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from urllib.parse import quote

import pytest
from kit.browser import Browser
from kit.client.with_users import WithUsers
from kit.console_content import BINARY, HOSTILE
from kit.console_looks import check_fits, check_harmless, check_has, shows
from kit.flight_rows import FLIGHT_SCHEMA

from duramen import aio
from duramen.server.roles.all_in_one import SingleServer
from log_tier.rows.tuple_key import pack_key
from router.admin.client import AdminConnection
from router.proto import admin_pb2

pytestmark = pytest.mark.embedded_log_only  # Kafka's records are looked at in tests/log_tier/kafka


async def test_one_table(browser: Browser, server: SingleServer) -> None:
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        made_ms = (await db.describe_table("orders")).made_ms

    def looked() -> None:
        shows(browser, server, "#/table/orders")
        time = browser.script("return import('/console/documents.js').then((page) => page.when(arguments[0]))", made_ms)
        facts = "[...document.querySelectorAll('dl.facts div')].map((each) => each.innerText.replace(/\\s+/, ' '))"
        browser.wait(f"{facts}.some((each) => each.toLowerCase() === arguments[0])", f"made {time}")
        check_has(
            browser, "2 partitions", "0 to 8191", "8192 to 16383", "n1 level", "equal at every tier", "all records"
        )
        check_has(browser, "snapshots", "versions", "live")
        check_fits(browser)
        shows(browser, server, "#/table/nowhere")
        check_has(browser, "nowhere")
        browser.wait("document.querySelectorAll('.card:not([hidden])').length === 0")
        shows(browser, server, f"#/table/{quote(HOSTILE, safe='')}")
        check_has(browser, HOSTILE)
        check_harmless(browser)

    await asyncio.to_thread(looked)


async def test_a_table_of_rows_has_its_key_its_indexes_and_its_schemas(browser: Browser, server: SingleServer) -> None:
    schema = {
        **FLIGHT_SCHEMA,
        "fields": [*FLIGHT_SCHEMA["fields"], {"name": "remark", "type": "string", "default": HOSTILE}],
    }
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        rows = await db.create_table(
            "rows", row=schema, key=("carrier", "flight"), indexes={"by_tail": ("tailnum", "dep_delay")}, partitions=1
        )
        await rows.create_index("late", "tailnum", where={"dep_delay": (60.0, None)})

    def looked() -> None:
        shows(browser, server, "#/table/rows")
        check_has(browser, "what its keys and values are", "carrier str, flight int", "by_tail", "tailnum, dep_delay")
        check_has(browser, "late", "some, by dep_delay", "in service")
        shown = browser.text("#page")
        assert not [word for word in ("index changes", "first indexes", "partial building") if word in shown], shown
        browser.wait("document.querySelector('#page .value-text')?.innerText.includes(arguments[0])", '"dep_delay"')
        check_has(browser, "<img src=x")
        check_harmless(browser)
        check_fits(browser)
        shows(browser, server, "#/table/orders")
        check_has(browser, "2 partitions", "equal at every tier")
        assert "what its keys and values are" not in browser.text("#page"), "a table of bytes has no definition"

    await asyncio.to_thread(looked)


async def test_answers_that_come_in_another_order(browser: Browser, server: SingleServer) -> None:
    """What fails while the first answer is waited for is shown, and is no error of the page."""
    source = (
        "const ask = window.fetch; const others = Promise.withResolvers(); window.unheard = 0;"
        "addEventListener('unhandledrejection', () => { window.unheard += 1; });"
        "window.fetch = async (url, how) => {"
        " if (how?.body?.includes?.('Tables/Describe')) await others.promise;"
        " const answer = await ask(url, how);"
        " if (how?.body?.includes?.('Admin/Snapshots')) setTimeout(others.resolve, 200);"
        " return answer; };"
    )

    def looked() -> None:
        made = browser.protocol("Page.addScriptToEvaluateOnNewDocument", source=source)
        try:
            shows(browser, server, "#/table/nowhere")
            check_has(browser, "there is no table 'nowhere'")
            assert browser.script("return window.unheard") == 0
        finally:
            browser.protocol("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])

    await asyncio.to_thread(looked)


async def test_what_later_servers_say_is_shown_by_its_names(browser: Browser, server: SingleServer) -> None:
    """Fields, kinds and tiers that no page knows: they have a column or a line, as text."""
    minute = {
        "partition": 3,
        "minute_ms": 1_764_226_000_000,
        "verdict": "different",
        "reason": "",
        "written": {"first": 5, "last": 9, "offsets": 5},
        "replicas": [{"node": "n1", "verdict": "equal", "counted": {"offsets": 5}, "reason": ""}],
        "derived": [
            {
                "node": "n2",
                "name": "by_city",
                "verdict": "different",
                "counted": {"offsets": 4},
                "differs_from": 7,
                "differs_to": 7,
            }
        ],
    }
    table = {"lineage": HOSTILE, "vector_bytes": 2048, "is_derived": True, "embeddings": ["a", "b"], "budget_ms": 1500}

    def looked() -> None:
        shows(browser, server, "#/query")
        browser.wait("document.querySelector('.ask')")
        shown = browser.script(
            "return import('/console/table.js').then((page) => {"
            " document.querySelector('#page').replaceChildren(...page.proofOf({replies: [arguments[0]], more: false}));"
            " return document.querySelector('#page').innerText })",
            minute,
        )
        assert "1 minute differ" in shown
        assert "n2 by_city 4 different" in shown
        assert "n2: offsets 7 to 7" in shown
        shown = browser.script(
            "return import('/console/documents.js').then((page) => {"
            " const root = document.querySelector('#page');"
            " root.replaceChildren(page.factList(arguments[0]), page.tableOf([arguments[0]]));"
            " return root.innerText })",
            table,
        )
        for text in (HOSTILE, "vector", "2.0 KiB", "is derived", "yes", "a, b", "1.5 s"):
            assert shown.count(text) == 2, (text, shown)
        check_harmless(browser)

    await asyncio.to_thread(looked)


async def test_what_audits_found_is_shown_with_its_time(browser: Browser, server: SingleServer) -> None:
    """On the night page and on the table's: of exports and of sessions, until they are audited again."""

    async def noted(tier: str, name: str, verdict: str, reason: str = "") -> None:
        part = admin_pb2.AdminAuditedPart(partition=1, rows=81_204, until=90_311, verdict=verdict, reason=reason)
        note = admin_pb2.AdminNoteAuditRequest(table="orders", tier=tier, name=name, parts=[part])
        async with AdminConnection(f"127.0.0.1:{server.port}") as admin:
            await admin.note_audit(note)

    rows = "[...document.querySelectorAll('#partitions tbody tr[data-name]')]"

    def night(words: str, style: str) -> None:
        shows(browser, server, "#/night")
        row = f"{rows}.find((each) => each.dataset.name === 'orders/1')"
        browser.wait(f"{row}?.innerText.includes(arguments[0])", words)
        assert browser.script(f"return {row}.className.trim()") == style

    await noted("export", "s3://lake/orders", "equal")
    await noted("session", "0f8c", "equal")
    await asyncio.to_thread(night, "exported 81,204, acknowledged 81,204", "")
    await noted("export", HOSTILE, "different", f"offsets 3 to 4 {HOSTILE}")

    def looked() -> None:
        night("different", "bad")
        browser.script(f"{rows}.find((each) => each.dataset.name === 'orders/1').click()")
        browser.wait("document.querySelector('#detail').innerText.includes(arguments[0])", f"offsets 3 to 4 {HOSTILE}")
        browser.wait("document.querySelector('#first').innerText.includes('duramen audit data orders')")
        shows(browser, server, "#/table/orders")
        check_has(browser, "1 audit found a difference", "90,311", "acknowledged", HOSTILE)
        check_harmless(browser)
        check_fits(browser)

    await asyncio.to_thread(looked)
    await noted("export", HOSTILE, "equal")
    await asyncio.to_thread(night, "exported 81,204, acknowledged 81,204", "")


async def test_one_key(browser: Browser, server: SingleServer) -> None:
    def looked() -> None:
        shows(browser, server, "#/key/orders/eu%3A07")
        check_has(browser, '"seats": 7', "slot", "member", "accepted", "Looked through all of the log")
        forms = {"hex": "7b 22 73 65", "text": '{"seats":7}', "JSON": '"seats": 7'}
        for name, text in forms.items():
            buttons = "[...document.querySelectorAll('.value-view button')]"
            browser.script(f"{buttons}.find((each) => each.innerText === arguments[0]).click()", name)
            browser.wait("document.querySelector('.value-text').innerText.includes(arguments[0])", text)
        shows(browser, server, "#/key/orders/absent")
        check_has(browser, "The key is not there.", "not there")
        shows(browser, server, f"#/key/orders/{quote(HOSTILE, safe='')}")
        check_has(browser, f"value {HOSTILE}")
        check_harmless(browser)
        shows(browser, server, f"#/key/orders/base64:{quote(b64encode(BINARY).decode(), safe='')}")
        check_has(browser, "000000  00 01 fe", f"{len(BINARY)} bytes")
        shows(browser, server, "#/key/orders/big")
        check_has(browser, "the first 64.0 KiB of 1.0 MiB: the rest is not shown", "(1,048,576 bytes)")
        assert browser.script("return document.querySelector('.value-text').innerText.length") == 64 * 1024
        check_fits(browser)
        shows(browser, server, "#/key/orders/base64:nonsense!")
        check_has(browser, "no base64")

    await asyncio.to_thread(looked)


async def test_the_log_of_a_partition(browser: Browser, server: SingleServer) -> None:
    rows = "[...document.querySelectorAll('.log-records tbody tr')].map((row) => row.cells[0].innerText)"

    def looked() -> None:
        shows(browser, server, "#/log/orders/0")
        check_has(browser, "The log of orders/0 holds offsets 0 to", "put", "eu:")
        newest = browser.script(f"return {rows}")
        browser.press("j")
        browser.wait("document.querySelector('.card h2').innerText === 'offset 0'")
        check_has(browser, "its record")
        shows(browser, server, f"#/log/orders/0/{int(newest[-1]) - 1}")
        browser.wait(f"{rows}.length === 2")
        browser.press("p")
        browser.wait(f"{rows}[0] === '0'")
        browser.press("]")
        browser.wait("location.hash === '#/log/orders/0'")
        browser.script("document.querySelector('.from').value = '2001-01-01 00:00'")
        browser.script("document.querySelector('form.ask').requestSubmit()")
        browser.wait("location.hash.includes('/t9783') || location.hash.includes('/t978')")
        browser.wait(f"{rows}[0] === '0'")
        browser.script("document.querySelector('.from').value = 'yesterday'")
        browser.script("document.querySelector('form.ask').requestSubmit()")
        check_has(browser, "neither an offset nor a time")
        check_fits(browser)
        for fragment in (
            "#/log/orders/7",
            "#/log/orders/x",
            "#/log/nowhere/0",
            f"#/log/orders/0/{9 * 10**20}",
            "#/log/orders/0/tx",
        ):
            shows(browser, server, fragment)
            browser.wait("document.querySelector('.note-line.bad')")
            assert browser.script(f"return {rows}") == [], fragment
        shows(browser, server, "#/log/orders/0/999999")
        check_has(browser, "there is none from")
        check_harmless(browser)

    await asyncio.to_thread(looked)


async def test_a_query(browser: Browser, server: SingleServer) -> None:
    keys = "[...document.querySelectorAll('.entries tbody tr')].map((row) => row.cells[0].innerText)"

    def asks(kind: str, **fields: str) -> None:
        browser.script(f"document.querySelector('[data-kind={kind}]').click()")
        for name, text in fields.items():
            browser.script(f"document.querySelector('.{name}').value = arguments[0]", text)
        browser.script("document.querySelector('form.ask').requestSubmit()")

    def looked() -> None:
        shows(browser, server, "#/query/orders")
        browser.wait("document.querySelector('.ask')")
        asks("prefix", prefix="eu:", limit="20")
        browser.wait(f"{keys}.length === 20")
        check_has(browser, "Found 20 keys, and there are more")
        browser.script(
            "[...document.querySelectorAll('button')].find((each) => each.innerText === 'next page').click()"
        )
        browser.wait(f"{keys}.length === 10 && {keys}[0] === 'eu:20'")
        asks("range", start="eu:05", end="eu:08")
        browser.wait(f"{keys}.join() === 'eu:05,eu:06,eu:07'")
        browser.script("document.querySelector('.reverse').click()")
        asks("range", start="eu:05", end="eu:08")
        browser.wait(f"{keys}.join() === 'eu:07,eu:06,eu:05'")
        asks("get", key="eu:09")
        browser.wait(f"{keys}.join() === 'eu:09'")
        asks("get", key="absent")
        check_has(browser, "Found nothing")
        asks("get", key="base64:!!")
        check_has(browser, "is no base64")
        asks("prefix", prefix="", limit="501")
        check_has(browser, "a number from 1 to 500")
        asks("prefix", prefix="<", limit="9")
        check_has(browser, HOSTILE)
        check_harmless(browser)
        check_fits(browser)
        browser.script("document.querySelector('.entries a').click()")
        browser.wait("document.body.dataset.page === 'key'")
        check_has(browser, f"value {HOSTILE}")

    await asyncio.to_thread(looked)


async def test_a_find(browser: Browser, server: SingleServer) -> None:
    """It is offered where the table has rows, and says which index it read, or why none serves."""
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        flights = await db.create_table(
            "rows", row=FLIGHT_SCHEMA, key=("carrier", "flight"), indexes={"by_tail": ("tailnum", "dep_delay")}
        )
        rows = [
            {"carrier": "UA", "flight": number, "tailnum": HOSTILE if number == 9 else "N1", "dep_delay": number / 2}
            for number in range(10)
        ]
        await flights.put_many([*rows, {"carrier": HOSTILE, "flight": 10, "tailnum": "N2", "dep_delay": 0.0}])
    cells = (
        "[...document.querySelectorAll('.entries tbody tr')].map((row) => JSON.parse(row.cells[1].innerText).flight)"
    )
    offered = "!document.querySelector('[data-kind=find]').hidden"

    def asks(where: str, order: str = "", limit: str = "100") -> None:
        for name, text in (("where", where), ("order", order), ("limit", limit)):
            browser.script(f"document.querySelector('.{name}').value = arguments[0]", text)
        browser.script("document.querySelector('form.ask').requestSubmit()")

    def looked() -> None:
        shows(browser, server, "#/query/rows")
        browser.wait(f"document.querySelector('.ask') && {offered}")
        browser.script("document.querySelector('[data-kind=find]').click()")
        asks("tailnum = N1\ndep_delay = [1, 3]")
        browser.wait(f"{cells}.join() === '2,3,4,5'")
        check_has(browser, "Found 4 rows by the index by_tail, in")
        asks('{"tailnum": "N1"}', order="-dep_delay", limit="2")
        browser.wait(f"{cells}.join() === '8,7'")
        check_has(browser, "Found 2 rows by the index by_tail, and there are more")
        asks("carrier = UA\nflight = 3")
        browser.wait(f"{cells}.join() === '3'")
        check_has(browser, "Found 1 row by the key")
        first = "document.querySelector('.entries tbody a')"
        assert browser.script(f"return {first}.innerText") == '["UA",3]', "the key as its fields"
        asks("dep_delay = [1, null]")
        check_has(browser, "no index serves this")
        asks("nonsense <img>")
        check_has(browser, "This line is no field = value: nonsense <img>")
        asks(f"tailnum = {HOSTILE}")
        browser.wait(f"{cells}.join() === '9'")
        assert (
            browser.script("return JSON.parse(document.querySelector('.entries td + td').innerText).tailnum") == HOSTILE
        )
        asks(f"{HOSTILE.replace('=', '')} = 1")
        check_has(browser, HOSTILE.replace("=", "")[:20])
        check_harmless(browser)
        check_fits(browser)
        browser.script(
            "const table = document.querySelector('.table-name'); table.value = 'orders';"
            "table.dispatchEvent(new Event('change'))"
        )
        browser.wait(f"!({offered})")
        assert browser.script("return document.querySelector('.where')") is None, "a table of bytes has no fields"
        hostile_key = b64encode(pack_key(HOSTILE, 10)).decode()
        shows(browser, server, f"#/key/rows/base64:{quote(hostile_key, safe='')}")
        browser.wait("document.querySelector('.page-title')?.innerText.endsWith(',10]')")
        assert json.loads(browser.script("return document.querySelector('.page-title').innerText")) == [HOSTILE, 10]
        check_has(browser, "fields of the key")
        check_harmless(browser)

    await asyncio.to_thread(looked)


async def test_who_may_read_a_prefix_sees_that_alone(browser: Browser, server: SingleServer) -> None:
    users = WithUsers(server)
    await users.add_user("root", "admin *")
    token = await users.add_user("alice", "read orders --key eu:")

    def looked() -> None:
        shows(browser, server, "#/key/orders/eu%3A07")
        browser.wait("document.querySelector('#login').open")
        browser.write("#token", token)
        browser.script("document.querySelector('#token-form button').click()")
        check_has(browser, '"seats": 7', "Not shown to you")
        browser.script("location.hash = '#/key/orders/big'")
        check_has(browser, "what is missing is 'read orders --key big'")
        assert "xxx" not in browser.text("#page")
        browser.script("location.hash = '#/log/orders/0'")
        check_has(browser, "what is missing is 'read orders'")
        browser.script("location.hash = '#/tables'")
        check_has(browser, "not shown to you", "what is missing is 'admin *'")
        browser.wait("document.querySelectorAll('.heat tbody tr[data-name]').length === 3")
        browser.script("location.hash = '#/table/orders'")
        check_has(browser, "2 partitions", "Not shown to you")
        browser.script("sessionStorage.clear()")

    await asyncio.to_thread(looked)
