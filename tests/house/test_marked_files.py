"""A mark that a run may select stands in the file whose tests have it: other files are not collected then."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.marked_files import SELECTED, has_mark, wanted_mark

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("mark", sorted(SELECTED))
def test_no_test_gets_a_mark_from_elsewhere(mark: str) -> None:
    """A contract of the kit that has a mark would give it to a test whose own file does not name it."""
    shared = [*(TESTS / "kit").rglob("*.py"), *TESTS.rglob("conftest.py")]
    assert len(shared) > 50, "the kit is elsewhere"
    assert not [str(each.relative_to(TESTS)) for each in shared if has_mark(each, mark)]


@pytest.mark.parametrize("mark", sorted(SELECTED))
def test_each_mark_has_files(mark: str) -> None:
    assert any(has_mark(each, mark) for each in TESTS.rglob("test_*.py")), f"nothing is marked {mark}"


@pytest.mark.parametrize("expression", ["kafka", " kafka ", "kafka and not campaign", "kafka and not spark and not x"])
def test_a_run_for_one_mark(expression: str) -> None:
    assert wanted_mark(expression) == "kafka"


@pytest.mark.parametrize(
    "expression", ["", "not kafka", "not kafka and not spark", "kafka or spark", "campaign", "(kafka)", "kafka and x"]
)
def test_a_run_for_others(expression: str) -> None:
    """What is not understood is selected by pytest itself."""
    assert wanted_mark(expression) is None


def test_only_the_mark_itself_counts(tmp_path: Path) -> None:
    named, marked = tmp_path / "named.py", tmp_path / "marked.py"
    named.write_text("kafka = mark.kafkaesque  # benchmark.kafka\n")
    marked.write_text("pytestmark = [pytest.mark.kafka]\n")
    assert not has_mark(named, "kafka")
    assert has_mark(marked, "kafka")
