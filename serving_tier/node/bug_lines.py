"""Bugs in the process' log: each once with its traceback, and one counted line for every later try that meets it."""

from __future__ import annotations

import logging
from collections.abc import Hashable

__all__ = ["BugLines"]

logger = logging.getLogger(__name__)


class BugLines:
    """Logs tries that ended by a bug. Invariant: `_last` has an entry for each key whose last try ended by a bug."""

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[str, int]] = {}
        """The bug that ended the last try, and how many tries in a row it has ended."""

    def note(self, key: Hashable, what: str, error: BaseException) -> None:
        """Log that `what` ended by `error`: with the traceback where the try before ended otherwise. O(1)."""
        cause = repr(error)
        last, times = self._last.get(key, ("", 0))
        times = times + 1 if last == cause else 1
        self._last[key] = cause, times
        if times == 1:
            logger.error("%s ended by a bug", what, exc_info=error)
        else:
            logger.error("%s ended by a bug: %s (%d times in a row)", what, cause, times)

    def forget(self, key: Hashable) -> None:
        """The last try of `key` ended otherwise, or there will be no more tries. Harmless where no bug was noted."""
        self._last.pop(key, None)
