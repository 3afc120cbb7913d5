"""What callers of a simulated cluster know of patches: each adds one to a number of its row, and its mark to a text.

So a row says which patches it is made of, and in which order: what is lost, what counts twice, and what was applied to
another state than the one that its condition names shows in it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["PatchLedger", "PatchedRow"]


class PatchedRow(NamedTuple):
    """A row as it was read."""

    marks: tuple[str, ...]
    """Of the patches in it, in their order."""
    counted: float

    @classmethod
    def of(cls, row: dict[str, Any]) -> PatchedRow:
        return cls(tuple((row["tailnum"] or "").split()), row["dep_delay"])


class PatchLedger:
    """Knows of every patch of every caller. Marks are never given twice."""

    def __init__(self) -> None:
        self._given = 0
        self._tried: dict[str, set[str]] = {}
        """By key: the marks that were sent."""
        self._refused: set[str] = set()
        self._offsets: dict[str, dict[str, int]] = {}
        """By key: the offsets of the marks that were acknowledged."""
        self._behind: dict[str, str] = {}
        """From marks that were sent on a condition to the mark that was the last one then; empty: there was none."""

    def next_mark(self, key: str, behind: PatchedRow | None = None) -> str:
        """The mark of a patch that is sent now. `behind`: the row that its condition is about."""
        self._given += 1
        mark = f"p{self._given}"
        self._tried.setdefault(key, set()).add(mark)
        if behind is not None:
            self._behind[mark] = behind.marks[-1] if behind.marks else ""
        return mark

    def refused(self, mark: str) -> None:
        """It had no effect."""
        self._refused.add(mark)

    def done(self, key: str, mark: str, offset: int) -> None:
        """It was acknowledged."""
        self._offsets.setdefault(key, {})[mark] = offset

    def acknowledged(self, key: str) -> dict[str, int]:
        """The marks that a strong read which begins now shows."""
        return dict(self._offsets.get(key, {}))

    def difference(self, key: str, row: PatchedRow, least: dict[str, int]) -> str:
        """Why this is not what a read may show that must show the marks of `least`; empty: it may."""
        found = set(row.marks)
        if len(found) < len(row.marks):
            twice = next(mark for mark in row.marks if row.marks.count(mark) > 1)
            return f"the patch {twice} of {key} counts twice"
        if row.counted != len(row.marks):
            return f"{key} counts {row.counted} patches, and has the marks of {len(row.marks)}"
        if alien := found - self._tried.get(key, set()):
            return f"{key} has {min(alien)}, which nobody sent"
        if wrong := found & self._refused:
            return f"{key} has {min(wrong)}, which was refused"
        if lost := least.keys() - found:
            return f"{key} has lost the patch {min(lost)}, which was acknowledged at {least[min(lost)]}"
        known = self._offsets.get(key, {})
        order = [known[mark] for mark in row.marks if mark in known]
        if order != sorted(order):
            return f"{key} has its patches in another order than the log"
        for place, mark in enumerate(row.marks):
            before = row.marks[place - 1] if place else ""
            if self._behind.get(mark, before) != before:
                return (
                    f"the patch {mark} of {key} was applied behind {before}, its condition names {self._behind[mark]}"
                )
        return ""
