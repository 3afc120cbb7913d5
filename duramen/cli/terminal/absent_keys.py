"""Why a key had no value at a state of the past, in one line."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from duramen.blocking import Table
from duramen.client.model.results import KeyVersion

__all__ = ["why_absent"]

_VERSIONS: Final = 1000
"""Of a key that came later, so many are looked through for the first one."""


def why_absent(table: Table, key: bytes, state: str | datetime) -> str:
    """What is known of a key that has no value at `state`. Two requests at most. Raises what `Table.history` does."""
    then = table.history(key, at=state, limit=1)
    if then:
        what = "was deleted" if then[0].value is None else "had expired; its last value came"
        return f"it {what} {_place(then[0])}"
    later = table.history(key, limit=_VERSIONS)
    if not later:
        return "it has had none since, either, as far as the table keeps its past"
    first = "its first change" if len(later) < _VERSIONS else "what it has had"
    return f"{first} came later, {_place(later[-1])}"


def _place(version: KeyVersion[bytes]) -> str:
    time = "" if version.time is None else f", {version.time.isoformat(timespec='milliseconds')}"
    return f"at offset {version.offset}{time}"
