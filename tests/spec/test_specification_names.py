"""A specification speaks of the code that is there: every action is named as a function, and the file has it."""

from __future__ import annotations

import re

import pytest

from spec.checker import models
from spec.definitions import FOLDER, SPECIFICATIONS, actions_of, defined_in, names_in, stands_for, text_of
from spec.planted import PLANTED

# So much is read in one sitting.
LINES_MAX = 300


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_every_action_is_a_function_of_the_code(specification: str) -> None:
    named = stands_for(specification)
    without = sorted(set(actions_of(specification)) - named.keys())
    assert not without, f"no comment before these names the file of the function: {without}"
    gone = sorted(f"{file} {name}" for name, file in named.items() if name not in names_in(file))
    assert not gone, f"the code has no such function: {gone}"


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_a_name_of_the_code_says_where_it_is(specification: str) -> None:
    """The specification's own names begin with a capital; `vars` is TLA+'s."""
    own = {name for name in defined_in(specification) if name[0].isupper() or name == "vars"}
    assert defined_in(specification) - own == stands_for(specification).keys()


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_a_specification_is_short(specification: str) -> None:
    assert len(text_of(specification).splitlines()) <= LINES_MAX


@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_every_mistake_is_planted_and_every_property_has_one(specification: str) -> None:
    text = text_of(specification)
    essay = text[text.index("PROPERTIES (") : text.index("LEFT OUT")]
    properties = set(re.findall(r"^  (\w+) +[A-Z]\d+ ", essay, re.MULTILINE))
    mine = [mistake for mistake in PLANTED if mistake.model.startswith(f"{specification}-")]
    assert properties == {mistake.found_by for mistake in mine}
    written = set(re.findall(r'Bug (?:=|#|\\in) \{?"([^"]+)"', text)) | set(
        re.findall(r'Bug \\in \{[^}]*, "([^"]+)"', text)
    )
    assert written == {mistake.bug for mistake in mine} | UNFOUND.get(specification, set())
    checked = {
        name
        for model in models(specification)
        for line in (FOLDER / f"{model}.cfg").read_text(encoding="utf-8").splitlines()
        if line.startswith(("INVARIANTS", "PROPERTIES"))
        for name in line.split()[1:]
    }
    assert properties == checked


UNFOUND: dict[str, set[str]] = {}
