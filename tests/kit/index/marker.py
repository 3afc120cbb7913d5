"""The marker next to an index's file, changed as somebody who knows its format would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["change_marker"]


def change_marker(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Let `change` have the fields, and write them without a checksum, as versions before 0.1 did."""
    marker = folder / "index.json"
    fields = json.loads(marker.read_bytes())
    fields.pop("check", None)
    change(fields)
    marker.write_text(json.dumps(fields))
