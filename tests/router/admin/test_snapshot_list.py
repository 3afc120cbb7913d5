"""Which snapshots `duramen admin snapshots` calls usable: those from which the live version can be restored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from log_tier.catalog.map_json import map_from_json
from log_tier.model.identifiers import Offset
from log_tier.model.log import Bounds
from router.admin.answers.listing import list_snapshots
from router.admin.planners.cluster_view import Situation

FIXTURE = Path(__file__).parents[2] / "log_tier" / "catalog" / "fixtures" / "map-1-swap.json"


def usable(earliest: int = 0, **changes: Any) -> Mapping[str, bool]:
    """By the snapshots' ids; the table's log begins at `earliest`."""
    document = json.loads(FIXTURE.read_text())
    cluster = map_from_json(json.dumps({**document, **changes}).encode())
    bounds = {table: [Bounds(Offset(earliest), Offset(90))] * 2 for table in cluster.tables}
    return {each.id: each.usable for each in list_snapshots(Situation(cluster, {}), bounds)}


def test_a_snapshot_of_before_the_last_swap_is_not_usable() -> None:
    """Its log goes on, but leads over a barrier to a version that may be nowhere any more (C5)."""
    assert usable() == {"5f3a": True, "6b1c": False}


@pytest.mark.parametrize(("earliest", "is_usable"), [(41, True), (42, False)])
def test_the_log_has_to_go_on_from_it(earliest: int, is_usable: bool) -> None:
    assert usable(earliest)["5f3a"] is is_usable
