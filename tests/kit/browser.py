"""A real Chromium, driven by the protocol of WebDriver in plain HTTP: no package is between a test and the browser."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import pytest

from kit.client.server_process import read_line
from kit.deadlines import patience_s, wait_until

__all__ = ["Browser", "chromium"]

_BEGINS_S: Final = 60.0
_STARTED: Final = re.compile(rb"started successfully on port (\d+)")

# As root Chromium has no sandbox of its own, and /dev/shm may be small. All pages are in one process: a new process for
# each page that is opened took a third of the processor time.
_ARGUMENTS: Final = (
    "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--no-first-run", "--lang=en-GB",
    "--disable-site-isolation-trials", "--renderer-process-limit=1",
)  # fmt: skip


class Browser:
    """One window."""

    def __init__(self, port: int, arguments: list[str]) -> None:
        self._port = port
        options = {"args": arguments, "binary": shutil.which("chromium")}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._asked("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        self._command("url", {"url": url})

    def script(self, text: str, *arguments: Any) -> Any:
        """What a function with this body returns in the page."""
        return self._command("execute/sync", {"script": text, "args": list(arguments)})

    def text(self, selector: str) -> str:
        """The text of one element, as it is seen."""
        found: str = self.script("return document.querySelector(arguments[0]).innerText", selector)
        return found

    def wait(self, condition: str, *arguments: Any) -> None:
        """Wait until an expression is true in the page."""
        try:
            wait_until(lambda: self.script(f"return Boolean({condition})", *arguments), condition)
        except AssertionError as error:
            seen, logged = self.script("return document.body.innerText"), self.logged()
            raise AssertionError(f"{error}; the page says {seen[:2000]!r}; the browser logged {logged}") from None

    def press(self, *keys: str) -> None:
        """Press and release keys, one after the other, as quickly as the browser takes them."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._command("actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def write(self, selector: str, text: str) -> None:
        """Type text into a field."""
        found = self._command("element", {"using": "css selector", "value": selector})
        (element,) = found.values()
        self._command(f"element/{element}/value", {"text": text})

    def new_tab(self) -> str:
        """Open a tab and turn to it; its handle."""
        handle: str = self._command("window/new", {"type": "tab"})["handle"]
        self.turn_to(handle)
        return handle

    def turn_to(self, handle: str) -> None:
        """Have the commands that follow go to a tab."""
        self._command("window", {"handle": handle})

    def close_tab(self) -> None:
        """Close the tab; turn to another one before anything else."""
        self._asked("DELETE", f"{self._session}/window")

    @property
    def tab(self) -> str:
        """The handle of the tab."""
        handle: str = self._asked("GET", f"{self._session}/window")
        return handle

    def resize(self, width: int, height: int) -> None:
        """Have the page so many pixels, of a screen that is as large."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.protocol("Emulation.setDeviceMetricsOverride", **size)

    def protocol(self, command: str, **parameters: Any) -> Any:
        """One command of Chromium's own protocol."""
        return self._command("goog/cdp/execute", {"cmd": command, "params": parameters})

    def screenshot(self) -> bytes:
        """What is seen now, as PNG."""
        return base64.b64decode(self._asked("GET", f"{self._session}/screenshot"))

    def logged(self) -> list[str]:
        """What the browser has logged since the last call: errors, refusals by policies, what scripts say."""
        return [each["message"] for each in self._command("se/log", {"type": "browser"})]

    def close(self) -> None:
        """Close the window and its browser."""
        self._asked("DELETE", self._session)

    def _command(self, path: str, body: dict[str, Any]) -> Any:
        return self._asked("POST", f"{self._session}/{path}", body)

    def _asked(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=patience_s(_BEGINS_S))
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            found = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(found, dict) and "error" in found:
            raise AssertionError(f"{method} {path}: {found['error']}: {found['message'][:1000]}")
        return found


@contextmanager
def chromium(folder: Path, *arguments: str) -> Iterator[Browser]:
    """A browser while the block runs, whose files are in `folder`. Skips the test where there is none."""
    driver = shutil.which("chromedriver")
    if driver is None or shutil.which("chromium") is None:
        pytest.skip("Chromium is not installed: apt-get install chromium chromium-driver")
    command = [driver, "--port=0", f"--log-path={folder / 'chromedriver.log'}"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        while not (started := _STARTED.search(line := read_line(process, _BEGINS_S))):
            assert line, "chromedriver did not start"
        browser = Browser(int(started[1]), [*_ARGUMENTS, f"--user-data-dir={folder / 'profile'}", *arguments])
        try:
            yield browser
        finally:
            browser.close()
    finally:
        process.terminate()
        process.wait(patience_s(_BEGINS_S))
        assert process.stdout is not None
        process.stdout.close()
