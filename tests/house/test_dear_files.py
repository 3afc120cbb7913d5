"""What is dear begins, in whole files, and nothing else changes its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.dear_files import DEAR, dear_first

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", DEAR)
def test_each_dear_file_is_there(name: str) -> None:
    assert (ROOT / name).is_file(), "it was moved: name it anew"


def test_dear_files_come_first_and_whole() -> None:
    files = ["tests/a.py", DEAR[1], "tests/b.py", "tests/b.py", DEAR[0], DEAR[1]]
    assert [files[number] for number in dear_first(files)] == [DEAR[0], DEAR[1], DEAR[1], *files[:1], *files[2:4]]
    assert dear_first(files) == [4, 1, 5, 0, 2, 3], "each file's tests in their order"


def test_a_run_begins_with_dear_tests(request: pytest.FixtureRequest) -> None:
    """Of this very run, whatever was selected for it."""
    ran = [each.nodeid.split("::")[0] for each in request.session.items]
    assert dear_first(ran) == list(range(len(ran)))
