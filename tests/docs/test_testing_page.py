"""Every block of docs/TESTING_YOUR_PROGRAM.md runs, and gives what the page says; its tables name what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kit.pages.markdown import TOP, blocks_of
from kit.pages.terminal import Terminal

import duramen.pytest_plugin
from duramen import testing

PAGE = TOP / "docs" / "TESTING_YOUR_PROGRAM.md"

pytestmark = pytest.mark.embedded_log_only


def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The page's own run of pytest: the plugin is named, as this environment need not know its entry point.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p duramen.pytest_plugin -p no:cacheprovider")
    terminal = Terminal(tmp_path)
    try:
        for block in blocks_of(PAGE):
            terminal.check_block(block)
    finally:
        terminal.close()
    assert terminal.compared >= 9


def _table(heading: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def _called(text: str) -> set[str]:
    return {name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)\(", row)}


def test_every_fault_is_on_the_page() -> None:
    there = {name for name in vars(testing.ClusterFaults) if not name.startswith("_")} - {"joined", "going_on"}
    assert _called(_table("What a cluster can suffer")) == there
    of_a_disk = {name for name in vars(testing.DiskFaults) if not name.startswith(("_", "is_"))}
    assert of_a_disk <= set(re.findall(r"`(\w+)`", _table("Programs that embed Duramen")))


def test_every_error_of_the_kit_is_on_the_page() -> None:
    named = set(re.findall(r"`(\w+)`", _table("Mistakes, and what they say")))
    errors = {
        name
        for name in testing.__all__
        if isinstance(found := vars(testing)[name], type) and issubclass(found, Exception)
    }
    assert errors <= named


def test_every_fixture_is_on_the_page() -> None:
    named = set(re.findall(r"^\| `(duramen_\w+)` \|", _table("pytest"), re.MULTILINE))
    assert named == {name for name in duramen.pytest_plugin.__all__ if name.startswith("duramen_")}
