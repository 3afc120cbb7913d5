"""What a server audits on top of what it always audits, and how long rows stay. Immutable."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from log_tier.model.errors import InvalidRequest

__all__ = ["AUDIT_DAYS", "WINDOW_S", "AuditSettings"]

AUDIT_DAYS: Final = 90.0
"""How long rows stay by default."""
WINDOW_S: Final = 1.0
"""Equal events so long after the first one are in its row."""
_DAY_MS: Final = 86_400_000
# A thousand years are what an expiry can be.
_DAYS_MAX: Final = 36_500.0

_CHOICE: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*\*?|\*):(read|write|read,write|write,read)")


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The settings of one server."""

    reads: tuple[str, ...] = ()
    """Tables whose reads are audited: names, or prefixes with a trailing `*`."""
    writes: tuple[str, ...] = ()
    retention_ms: int = round(AUDIT_DAYS * _DAY_MS)
    """How long a row stays."""
    window_s: float = WINDOW_S
    """How long a row takes equal events."""
    _kept: dict[tuple[str, str], bool] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def parse(cls, tables: Iterable[str] = (), *, days: float = AUDIT_DAYS) -> Self:
        """The settings of texts such as `orders:read,write` and `ships*:write`. Raises `InvalidRequest`."""
        chosen: dict[str, list[str]] = {"read": [], "write": []}
        for text in tables:
            found = _CHOICE.fullmatch(text)
            if found is None:
                raise InvalidRequest(
                    f"{text!r} is no choice of what is audited: write TABLE:read, TABLE:write or TABLE:read,write, "
                    "where TABLE may end in '*'"
                )
            for right in found[2].split(","):
                chosen[right].append(found[1])
        if not 0 < days <= _DAYS_MAX:
            raise InvalidRequest(f"rows of the audit stay for 0 to {_DAYS_MAX:g} days, not {days:g}")
        return cls(tuple(chosen["read"]), tuple(chosen["write"]), max(1, round(days * _DAY_MS)))

    @property
    def chooses(self) -> bool:
        """Is any table chosen?"""
        return bool(self.reads or self.writes)

    def is_chosen(self, right: str, table: str) -> bool:
        """Are calls with this right (`read`, `write`) on this table audited? O(1) for one that was asked about."""
        known = self._kept.get((right, table))
        if known is None:
            patterns = self.reads if right == "read" else self.writes if right == "write" else ()
            known = any(
                table.startswith(pattern[:-1]) if pattern.endswith("*") else table == pattern for pattern in patterns
            )
            if len(self._kept) >= 4096:
                self._kept.clear()
            self._kept[right, table] = known
        return known
