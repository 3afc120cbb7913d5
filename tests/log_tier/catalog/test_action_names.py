"""The actions' names are on the disk of every catalog: none may change."""

from __future__ import annotations

import json

from log_tier.catalog.actions import CHANGES_HOLDERS, COPIES_INDEX, GAINS_REPLICA, SHORTENS_LOG, Action

NAMES = ["move", "add", "remove", "snapshot", "rebuild", "copy", "trim", "compact", "stage", "swap", "alter", "index"]


def test_the_names_on_the_disk() -> None:
    assert [each.value for each in Action] == NAMES
    assert json.dumps(list(Action)) == json.dumps(NAMES)


def test_a_name_from_the_catalog_is_found_among_them() -> None:
    """Tasks carry plain strings; a set of members answers for them."""
    assert {name for name in NAMES if name in CHANGES_HOLDERS} == {"move", "add", "remove"}
    assert {name for name in NAMES if name in GAINS_REPLICA} == {"move", "add"}
    assert {name for name in NAMES if name in SHORTENS_LOG} == {"trim", "compact"}
    assert {name for name in NAMES if name in COPIES_INDEX} == {"move", "add", "rebuild", "copy", "snapshot", "stage"}
    assert "of a newer version" not in frozenset(Action)
