"""How much of what its keys had before a table keeps: the newest changes of each key, those of some time, or all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from log_tier.model.errors import InvalidRequest

__all__ = ["ALL", "KEPT_AGE_MS_MAX", "KEPT_VERSIONS_MAX", "KeptHistory"]

KEPT_VERSIONS_MAX: Final = 1_000_000
"""Of each key. Who wants more wants all."""

KEPT_AGE_MS_MAX: Final = 100 * 366 * 86_400_000

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_AGE: Final = re.compile(r"([1-9][0-9]{0,11})(ms|[smhdw])")
_COUNT: Final = re.compile(r"[1-9][0-9]{0,11}")


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """At most one of both bounds; none: all changes are kept. Raises `InvalidRequest`."""

    versions: int = 0
    """So many of the newest changes of each key; 0: no such bound."""
    age_ms: int = 0
    """Every state of the last so many milliseconds of the log's time; 0: no such bound."""

    def __post_init__(self) -> None:
        for name, given, most in (
            ("versions", self.versions, KEPT_VERSIONS_MAX),
            ("age_ms", self.age_ms, KEPT_AGE_MS_MAX),
        ):
            if type(given) is not int or not 0 <= given <= most:
                raise InvalidRequest(f"{name} of a history is 0 to {most}, not {ascii(given)[:40]}")
        if self.versions and self.age_ms:
            raise InvalidRequest("a history has a bound by number or by age, not both")

    @classmethod
    def of(cls, given: object) -> KeptHistory:
        """What a caller means by `"30d"`, `100` or `"all"`. Units are ms, s, m, h, d and w. Raises `InvalidRequest`."""
        if given == "all":
            return ALL
        if type(given) is int and given > 0:
            return cls(versions=given)
        if isinstance(given, str):
            if _COUNT.fullmatch(given):
                return cls(versions=int(given))
            if (age := _AGE.fullmatch(given)) is not None:
                return cls(age_ms=int(age[1]) * _UNITS_MS[age[2]])
        raise InvalidRequest(
            f'history= is a time as "30d" (s, m, h, d, w), a number of changes of each key as 100, or "all", not '
            f"{ascii(given)[:40]}"
        )

    def listed(self) -> list[Any]:
        """As values of JSON."""
        if self.versions:
            return ["versions", self.versions]
        return ["age_ms", self.age_ms] if self.age_ms else ["all"]

    @classmethod
    def from_listed(cls, listed: Sequence[Any]) -> KeptHistory:
        """Read them. Raises `ValueError`, `InvalidRequest` for what is none."""
        kind, *bounds = listed
        if kind == "all" and not bounds:
            return ALL
        if kind not in ("versions", "age_ms") or len(bounds) != 1 or bounds[0] == 0:
            raise ValueError(f"a table keeps {listed!r:.60}")
        return cls(**{kind: bounds[0]})

    def __str__(self) -> str:
        """As `of` reads it."""
        if self.versions:
            return str(self.versions)
        if not self.age_ms:
            return "all"
        unit = next(unit for unit in ("w", "d", "h", "m", "s", "ms") if self.age_ms % _UNITS_MS[unit] == 0)
        return f"{self.age_ms // _UNITS_MS[unit]}{unit}"


ALL: Final = KeptHistory()
