"""Opening a page of the console in a browser, and what every page has to be."""

from __future__ import annotations

from duramen.server.roles.all_in_one import SingleServer
from kit.browser import Browser

__all__ = ["check_fits", "check_harmless", "check_has", "shows"]


def shows(browser: Browser, server: SingleServer, fragment: str) -> None:
    browser.open("about:blank")
    browser.open(f"http://127.0.0.1:{server.http_port}/{fragment}")


def check_has(browser: Browser, *texts: str) -> None:
    for text in texts:
        browser.wait("document.querySelector('#page').innerText.includes(arguments[0])", text)


def check_harmless(browser: Browser) -> None:
    assert browser.script("return window.harmed ?? 'whole'") == "whole"
    assert browser.script("return document.querySelectorAll('#page img, #page script').length") == 0


def check_fits(browser: Browser) -> None:
    """On a telephone nothing is beyond the edge; tables scroll in themselves."""
    browser.resize(360, 740)
    wide = browser.script("return [document.documentElement.scrollWidth, innerWidth]")
    browser.resize(1280, 900)
    assert wide[0] <= wide[1]
