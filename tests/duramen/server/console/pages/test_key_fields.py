"""The key page and the query's get where keys have fields, and what a key had before, in a real browser."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from kit.browser import Browser
from kit.console_content import HOSTILE
from kit.console_looks import check_fits, check_harmless, check_has, shows
from kit.flight_rows import FLIGHT_SCHEMA

from duramen import aio
from duramen.server.roles.all_in_one import SingleServer

LARGE = 9_007_199_254_740_993
"""An integer that no double holds."""
pytestmark = pytest.mark.embedded_log_only  # as the other pages of data

SUBMIT = "document.querySelector('form.ask').requestSubmit()"


@pytest.fixture
async def flights(server: SingleServer) -> SingleServer:
    """With `flights` of rows, whose past is kept."""
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        table = await db.create_table(
            "flights", row=FLIGHT_SCHEMA, key=("carrier", "flight"), partitions=1, history="30d"
        )
        await table.put(plane(LARGE, "N1"))
        await table.put(plane(LARGE, HOSTILE))
        await table.put(plane(8, "N8"))
        await table.delete("UA", 8)
        await table.put({**plane(9, "N9"), "carrier": HOSTILE})
    return server


def plane(number: int, tail: str) -> dict[str, Any]:
    return {"carrier": "UA", "flight": number, "tailnum": tail, "dep_delay": 0.5}


def types(browser: Browser, **fields: str) -> None:
    for name, text in fields.items():
        browser.wait(f"document.querySelector('.key-part[data-field={name}]')")
        browser.script(f"document.querySelector('.key-part[data-field={name}]').value = arguments[0]", text)
    browser.script(SUBMIT)


async def test_a_key_of_fields_and_its_past(browser: Browser, flights: SingleServer) -> None:
    cells = "(each) => [...each.cells].map((cell) => cell.innerText)"
    row = f"[...document.querySelectorAll('.row-fields tbody tr')].map({cells})"
    past = "[...document.querySelectorAll('.versions tbody tr')].map((each) => each.cells[2].innerText)"

    def looked() -> None:
        shows(browser, flights, "#/key/flights")
        types(browser, carrier="UA", flight=str(LARGE))
        browser.wait(f"{row}.length > 3")
        found = dict(browser.script(f"return {row}"))
        assert (found["carrier"], found["flight"], found["tailnum"]) == ("UA", str(LARGE), HOSTILE)
        check_has(browser, "of its past is kept", "the last 30d", "accepted", "\\u0002UA\\u0000")
        browser.wait(f"{past}.length === 2")
        newest, first = browser.script(f"return {past}")
        assert (HOSTILE in json.loads(newest)["tailnum"], json.loads(first)["tailnum"]) == (True, "N1")
        check_harmless(browser)
        check_fits(browser)
        types(browser, carrier="UA", flight="8")
        browser.wait(f"{past}.join().startsWith('deleted')")
        check_has(browser, "The key is not there.", "delete")
        types(browser, carrier="UA", flight="<b>8</b>")
        check_has(browser, "<b>8</b>")
        check_harmless(browser)
        types(browser, carrier=HOSTILE, flight="9")
        browser.wait(f"Object.fromEntries({row}).tailnum === 'N9'")
        check_harmless(browser)
        check_fits(browser)

    await asyncio.to_thread(looked)


async def test_addresses_lead_to_a_key(browser: Browser, flights: SingleServer) -> None:
    parts = "[...document.querySelectorAll('.key-part')].map((each) => each.value).join()"

    def looked() -> None:
        shows(browser, flights, "#/table/flights")
        check_has(browser, "of its keys' past is kept", "30.0 days", "carrier str, flight int")
        shows(browser, flights, "#/table/orders")
        check_has(browser, "nothing")
        shows(browser, flights, f"#/key/flights/fields/{quote(json.dumps(['UA', LARGE]), safe='')}")
        browser.wait(f"{parts} === 'UA,{LARGE}'")
        check_has(browser, HOSTILE)
        shows(browser, flights, "#/query/flights")
        browser.wait("document.querySelector('[data-kind=get]')")
        browser.script("document.querySelector('[data-kind=get]').click()")
        types(browser, carrier="UA", flight=str(LARGE))
        browser.wait("document.querySelector('.entries tbody a')")
        check_has(browser, "Found 1 key", "<img src=x", f'"flight":{LARGE}')
        browser.script("document.querySelector('.entries tbody a').click()")
        browser.wait(f"{parts} === 'UA,{LARGE}'")
        check_has(browser, "what it had before")
        shows(browser, flights, "#/log/flights/0")
        check_has(browser, '{"carrier":"UA"')
        shows(browser, flights, "#/query/flights")
        browser.wait("document.querySelector('[data-kind=get]')")
        for wrong in ("[1", "[" * 700, '"8"', "true"):
            browser.script("document.querySelector('[data-kind=get]').click()")
            types(browser, carrier="UA", flight=wrong)
            browser.wait("document.querySelector('.note-line.bad')?.innerText.includes('flight')")
        check_harmless(browser)
        check_fits(browser)

    await asyncio.to_thread(looked)


async def test_a_table_of_bytes_goes_on_as_before(browser: Browser, flights: SingleServer) -> None:
    def looked() -> None:
        shows(browser, flights, "#/key/orders/fields")
        check_has(browser, "The key is not there.")
        shows(browser, flights, "#/key/orders/eu%3A07")
        check_has(browser, '"seats": 7')
        assert browser.script("return document.querySelector('input.key').value") == "eu:07"
        assert "what it had before" not in browser.text("#page")
        shows(browser, flights, f"#/key/orders/fields/{quote('[1]', safe='')}")
        check_has(browser, "have no fields: give the key")

    await asyncio.to_thread(looked)
