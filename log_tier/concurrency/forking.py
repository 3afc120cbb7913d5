"""What a forked process must not touch: which objects learn that they are a child's copy, and what is kept for ever.

`os.fork` copies the memory of a process and none of its threads. Sockets, files and their locks are shared with the
parent. So whatever a destructor, a lock or a half-done call of the parent's would do in the child is wrong there: it
would wait for a thread that is not there, or write to what the parent uses. An object that owns such things registers
itself (`on_fork`); in the child its hook runs once, before anything else does, and there it

- lets go of what the child may close (`os.close` of a descriptor leaves the parent's open and its lock held),
- keeps the rest for ever (`keep_for_ever`), so that no destructor ever runs, not even when the interpreter ends,
- and gets new locks: a copied one may be held by a thread that does not exist.

A process that is started (`subprocess`, multiprocessing's `spawn` and `forkserver`) inherits nothing and runs no hooks.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Final, Protocol
from weakref import WeakSet

__all__ = ["IMPORTING", "Forkable", "keep_for_ever", "on_fork"]


IMPORTING: Final = threading.Lock()
"""Held by a thread that imports a module late, which a fork's child may need: a process that is forked while another
thread imports a module can never import that. A fork waits for it."""

os.register_at_fork(before=IMPORTING.acquire, after_in_parent=IMPORTING.release, after_in_child=IMPORTING.release)


class Forkable(Protocol):
    """An object that must know when it has become a copy."""

    def after_fork(self) -> None:
        """Runs in the child, in the only thread there is. Must not block, start anything, or raise."""
        ...


# gRPC's own handlers around fork do nothing for `grpc.aio` but print a line, and can leave a child waiting for a thread
# that it does not have (`log_tier.rpc.core` is what a child does instead). Read by gRPC when it is first imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

_forkables: WeakSet[Forkable] = WeakSet()


def on_fork(one: Forkable) -> None:
    """Call `one.after_fork()` in every process that is forked from this one while the object lives. Held weakly."""
    _forkables.add(one)


def keep_for_ever(one: object) -> None:
    """Never destroy this object, nor what it refers to: one reference more, which nobody gives back."""
    _increment(one)


_increment: Callable[[object], None] = ctypes.pythonapi.Py_IncRef
_increment.argtypes = [ctypes.py_object]  # type: ignore[attr-defined]
_increment.restype = None  # type: ignore[attr-defined]


def _after_fork() -> None:
    for one in list(_forkables):
        one.after_fork()


os.register_at_fork(after_in_child=_after_fork)
