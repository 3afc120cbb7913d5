"""What happened in a run, event by event."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable

__all__ = ["RunStory"]


class RunStory:
    """Lines with virtual times, and counts of what was met."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.lines: list[str] = []
        self.folder = ""
        """A path with a random name, of which no line speaks; empty: none."""
        self.met: Counter[str] = Counter()
        """Which faults met which steps of the disk, and which answers came."""

    def tell(self, who: str, what: str) -> None:
        """One event."""
        if self.folder:
            what = what.replace(self.folder, "FOLDER")
        self.lines.append(f"{self._now_s():12.6f} {who:<10} {what}")

    def digest(self) -> str:
        """Equal for equal stories."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:16]
