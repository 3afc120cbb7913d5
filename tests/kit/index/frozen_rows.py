"""Rows of an index's file that a test keeps, to compare with what this version writes and reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from serving_tier.index.lmdb.format import INDEX_FORMAT_VERSION

__all__ = ["frozen_rows"]


def frozen_rows(fixture: Path) -> dict[str, Any]:
    """What a fixture of the format of this version holds."""
    found: dict[str, Any] = json.loads(fixture.read_text(encoding="ascii"))
    assert found["format"] == INDEX_FORMAT_VERSION
    return found
