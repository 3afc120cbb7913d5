"""A replica that applies what its log has one chunk at a time, when a test lets it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kit.index.thread_only import thread_only
from serving_tier.replica.replica import Replica

__all__ = ["Steps", "stepped"]


class Steps:
    """The chunks that the replica may apply. Safe from any thread."""

    def __init__(self) -> None:
        self._allowed = threading.Semaphore(0)
        self._free = False
        self.begun = 0
        """Chunks that the replica has begun to apply, the one that it is held at included."""

    def one(self) -> None:
        """Let it apply one more."""
        self._allowed.release()

    def all(self) -> None:
        """Let it apply everything, from now on."""
        self._free = True
        self._allowed.release()

    def wait(self) -> None:
        """Called by the replica's thread before each chunk."""
        self.begun += 1
        if not self._free:
            self._allowed.acquire()


@contextmanager
def stepped(replica: Replica) -> Iterator[Steps]:
    """Inside, the replica applies nothing that it was not let; behind the block it catches up."""
    steps = Steps()
    apply = replica.index.fold_in

    def wait_and_apply(chunk: Any) -> object:
        steps.wait()
        return apply(chunk)

    replica.index.fold_in = wait_and_apply  # type: ignore[assignment, method-assign]
    try:
        with thread_only():
            yield steps
    finally:
        steps.all()
        del replica.index.fold_in
