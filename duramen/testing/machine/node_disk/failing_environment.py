"""An LMDB environment whose write transactions are steps of a failing disk. LMDB itself is real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from duramen.testing.machine.node_disk.node_fault import COMMIT, FILL_INDEX

__all__ = ["FailingEnvironment"]

_FILLS: Final = 4
"""The write transactions of a new file: its databases, its identity, its version; the fourth gives it an offset."""


class FailingEnvironment:
    """What `lmdb.open` returns, with a step before each write transaction, whose commit is whole or does not begin."""

    def __init__(self, env: Any, step: Callable[[str], None], *, is_new: bool) -> None:
        """`step`: called with the name of the call; raises `lmdb.Error` where the transaction fails."""
        self._env, self._step = env, step
        self._written = 0 if is_new else _FILLS

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, db: Any = None, *how: Any, write: bool = False, **options: Any) -> Any:
        """A transaction, as LMDB's."""
        if write:
            self._written += 1
            self._step(FILL_INDEX if self._written == _FILLS else COMMIT)
        return self._env.begin(db, *how, write=write, **options)
