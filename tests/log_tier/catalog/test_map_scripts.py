"""Golden scripts of the catalog's fold; `DURAMEN_RECORD=1` records them again."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.golden import check_script
from kit.log.map_script import play

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))


def test_there_are_map_scripts() -> None:
    assert len(SCRIPTS) >= 10


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_map_script(script: Path) -> None:
    check_script(script, play(script.read_text(encoding="utf-8")))
