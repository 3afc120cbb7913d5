"""Golden scripts of the catalog's fold; `DURAMEN_RECORD=1` records them again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kit.log.map_script import play

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))


def test_there_are_map_scripts() -> None:
    assert len(SCRIPTS) >= 10


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_map_script(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    found = play(text)
    if os.environ.get("DURAMEN_RECORD") == "1":
        script.write_text(found, encoding="utf-8")
    assert found == text
