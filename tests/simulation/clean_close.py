"""What a clean close of a log leaves: nothing for the next start to recover, whatever the machine does between them."""

from __future__ import annotations

from duramen.testing.machine.story import RunStory
from log_tier.embedded import RecoveryReport
from simulation.book import Broken

__all__ = ["CleanClose"]


class CleanClose:
    """Follows the lives of one log."""

    def __init__(self, story: RunStory) -> None:
        self._story = story
        self._failures_before = 0
        """Calls of the disk that had failed when this life began."""
        self._is_clean = self._was_clean = False
        self.was_full = False
        """Whether the disk ever was: a log without room for its journal leaves the old one as it is."""

    def _failures(self) -> int:
        return sum(count for name, count in self._story.met.items() if " fails at " in name)

    def begin(self) -> None:
        """A life begins."""
        self._was_clean, self._is_clean = self._is_clean, False
        self._failures_before = self._failures()

    def closed(self, *, is_alive: bool) -> None:
        """A close has not failed. `is_alive`: the machine has not died meanwhile."""
        self._is_clean = is_alive and self._failures() == self._failures_before

    def check(self, recovery: RecoveryReport) -> None:
        """Hold what recovery has found against the close before it. What a deletion left is not synced."""
        notes = [note for note in recovery.notes if not note.startswith("removed ")]
        # Without a file that no crash leaves damaged, recovery knows less.
        if any(note.startswith("went on without") for note in notes):
            raise Broken("damage", f"recovery says {recovery}")
        if self._was_clean and not self.was_full and (recovery.cuts or notes):
            raise Broken("closed", f"recovery says {recovery}")
