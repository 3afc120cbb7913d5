"""gRPC for this process; in a forked one, a core of its own.

gRPC's core is one set of threads, locks and poll sets for a process. A fork copies its memory and none of its threads:
no call ever ends in the child, whichever channel it is made on, and whatever the child would close or finalize there is
still the parent's. gRPC's fork support covers its synchronous channels alone. So the child abandons the inherited core
and loads the extension a second time, from a copy of its file, because the loader knows files that it has loaded. The
second one begins as in a new process. It costs a child some 30 ms, once, and 20 MB; a process that was not forked pays
nothing.

What the parent no longer needs, and its collector has not found yet, is inherited too: channels and calls in circles.
To destroy one takes the parent's threads, and gRPC ends the process that tries. So the child's collector leaves alone
whatever was inherited (`gc.freeze`); what it makes itself is collected as ever.

The two cores share Python code alone. Their classes differ: compare the name of an error's code, not its class.
"""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

import grpc

from log_tier.concurrency.forking import keep_for_ever

__all__ = ["grpc_core"]

_EXTENSION: Final = "grpc._cython.cygrpc"


class _Core:
    """The `grpc` package that this process may use."""

    def __init__(self) -> None:
        self.package: Any = grpc
        self.used = False
        self.inherited = False
        self.loading = threading.Lock()
        self._forking = threading.RLock()  # held across a fork; a signal's handler may fork meanwhile
        self._collected: list[bool] = []
        """Of each fork under way: whether the collector was on."""

    def before_fork(self) -> None:
        """Runs in the thread that forks: no collection until the child has set aside what it inherits."""
        self._forking.acquire()
        self._collected.append(gc.isenabled())
        gc.disable()

    def after_fork_in_parent(self) -> None:
        """Runs in the parent, also where the fork failed."""
        if self._collected.pop():
            gc.enable()
        self._forking.release()

    def after_fork(self) -> None:
        """Runs in a forked process: mark the loaded core as the parent's, and never destroy it, nor what it made."""
        keep_for_ever(self.package)
        if self.used:
            gc.freeze()
        if self._collected.pop():
            gc.enable()
        self.inherited = True
        self.loading = threading.Lock()
        self._forking = threading.RLock()


_core: Final = _Core()
os.register_at_fork(
    before=_core.before_fork, after_in_parent=_core.after_fork_in_parent, after_in_child=_core.after_fork
)


def grpc_core() -> Any:
    """The `grpc` package to make channels with in this process, and to name their errors."""
    if _core.inherited:
        with _core.loading:
            if _core.inherited:
                _core.package = _load_again()
                _core.inherited = False
    _core.used = True
    return _core.package


class _CopyFinder:
    """Finds the extension in another file."""

    def __init__(self, copy: str) -> None:
        self._copy = copy

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> Any:
        if fullname != _EXTENSION:
            return None
        loader = importlib.machinery.ExtensionFileLoader(fullname, self._copy)
        return importlib.util.spec_from_file_location(fullname, self._copy, loader=loader)


def _load_again() -> ModuleType:
    """A second `grpc` package; every other `import grpc` in this process goes on finding the first."""
    first = {name: module for name, module in sys.modules.items() if name == "grpc" or name.startswith("grpc.")}
    file = sys.modules[_EXTENSION].__file__
    assert file is not None, "an extension module is a file"
    with _copied(file) as copy:
        finder = _CopyFinder(copy)
        for name in first:
            del sys.modules[name]
        sys.meta_path.insert(0, finder)
        try:
            return importlib.import_module("grpc")
        finally:
            sys.meta_path.remove(finder)
            for name in [name for name in sys.modules if name == "grpc" or name.startswith("grpc.")]:
                del sys.modules[name]
            sys.modules.update(first)


@contextmanager
def _copied(file: str) -> Iterator[str]:
    """The path of a copy of a file, which can be loaded once. The copy goes at the end; what was loaded stays."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("duramen-grpc", os.MFD_CLOEXEC)
        copy = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, copy = tempfile.mkstemp(prefix="duramen-grpc-", suffix=".so")
    try:
        with open(file, "rb") as source, open(descriptor, "wb", closefd=False) as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        yield copy
    finally:
        os.close(descriptor)
        if not copy.startswith("/proc/"):
            os.unlink(copy)
