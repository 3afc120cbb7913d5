"""In the process under test: every disk call is written down, and the chosen one fails.

The functions here run in the place of the C library's, in whatever thread calls them, with the interpreter's lock.
What they do is short, touches no file below the folder in question, and ends in the function whose place they took.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import io
import os
import sys
from collections import Counter
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_ssize_t, c_void_p
from typing import Any, Final, NamedTuple

from kit.disk_calls.call_faults import SHORT, DiskCalls, kind_of
from kit.disk_calls.imported_functions import entries_of, libraries, replace_entry

__all__ = ["install"]


class _DiskCall(NamedTuple):
    """A function of the C library."""

    name: str
    """The point's name: that of the system call, without its variants."""
    result: Any
    arguments: tuple[Any, ...]
    path: str
    """Which arguments name the file: a descriptor, a path, or a descriptor and a path below it, first or second."""


_FD: Final = "fd"
_PATH: Final = "path"
_AT: Final = "at"
_MMAP: Final = "mmap"

_CALLS: Final = {
    "open": _DiskCall("open", c_int, (c_char_p, c_int, c_int), _PATH),
    "openat": _DiskCall("open", c_int, (c_int, c_char_p, c_int, c_int), _AT),
    "write": _DiskCall("write", c_ssize_t, (c_int, c_void_p, c_size_t), _FD),
    "pwrite": _DiskCall("pwrite", c_ssize_t, (c_int, c_void_p, c_size_t, c_int64), _FD),
    "writev": _DiskCall("write", c_ssize_t, (c_int, c_void_p, c_int), _FD),
    "pwritev": _DiskCall("pwrite", c_ssize_t, (c_int, c_void_p, c_int, c_int64), _FD),
    "pwritev2": _DiskCall("pwrite", c_ssize_t, (c_int, c_void_p, c_int, c_int64, c_int), _FD),
    "fsync": _DiskCall("sync", c_int, (c_int,), _FD),
    "fdatasync": _DiskCall("sync", c_int, (c_int,), _FD),
    "ftruncate": _DiskCall("truncate", c_int, (c_int, c_int64), _FD),
    "truncate": _DiskCall("truncate", c_int, (c_char_p, c_int64), _PATH),
    "rename": _DiskCall("rename", c_int, (c_char_p, c_char_p), _PATH),
    "renameat": _DiskCall("rename", c_int, (c_int, c_char_p, c_int, c_char_p), _AT),
    "link": _DiskCall("link", c_int, (c_char_p, c_char_p), _PATH),
    "linkat": _DiskCall("link", c_int, (c_int, c_char_p, c_int, c_char_p, c_int), _AT),
    "unlink": _DiskCall("unlink", c_int, (c_char_p,), _PATH),
    "rmdir": _DiskCall("unlink", c_int, (c_char_p,), _PATH),
    "unlinkat": _DiskCall("unlink", c_int, (c_int, c_char_p, c_int), _AT),
    "mkdir": _DiskCall("mkdir", c_int, (c_char_p, c_int), _PATH),
    "mkdirat": _DiskCall("mkdir", c_int, (c_int, c_char_p, c_int), _AT),
    "mmap": _DiskCall("mmap", c_void_p, (c_void_p, c_size_t, c_int, c_int, c_int, c_int64), _MMAP),
}
_WORKING_FOLDER: Final = -100


class _Watch:
    """Counts the calls below a folder."""

    def __init__(self, calls: DiskCalls) -> None:
        self._root = f"{calls.root}/"
        self._fault = calls.fault
        self._counts: Counter[tuple[str, str]] = Counter()
        self._record = os.open(calls.record, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._write = ctypes.CDLL(None).write

    def is_below(self, path: str) -> bool:
        """Is a path below the folder?"""
        return os.path.abspath(path).startswith(self._root)

    def fault_of(self, call: _DiskCall, arguments: tuple[Any, ...]) -> int | None:
        """The error with which this call fails; None if it goes on."""
        path = _path_of(call, arguments)
        if path is None or not path.startswith(self._root):
            return None
        kind = kind_of(path[len(self._root) - 1 :])[1:]
        name = call.name
        if name == "sync" and os.path.isdir(path):
            name = "syncdir"
        nth = self._counts[name, kind]
        self._counts[name, kind] += 1
        self._note(f"{name} {kind}")
        if self._fault is None or self._fault.point != (name, kind, nth):
            return None
        self._note(f"FAILED {path}")
        return self._fault.error

    def _note(self, line: str) -> None:
        data = line.encode() + b"\n"
        self._write(self._record, data, len(data))


def _path_of(call: _DiskCall, arguments: tuple[Any, ...]) -> str | None:
    """The absolute path of the file that a call is about; None for what is no file."""
    if call.path == _PATH:
        return _absolute(_WORKING_FOLDER, arguments[0])
    if call.path == _AT:
        return _absolute(arguments[0], arguments[1])
    descriptor = arguments[4] if call.path == _MMAP else arguments[0]
    return None if descriptor < 0 else _named(descriptor)


def _absolute(folder: int, path: bytes | None) -> str | None:
    if path is None:
        return None
    text = os.fsdecode(path)
    if not text.startswith("/"):
        above = os.getcwd() if folder == _WORKING_FOLDER else _named(folder)
        text = f"{above}/{text}"
    return os.path.normpath(text)


def _named(descriptor: int) -> str | None:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None


def _between(symbol: str, call: _DiskCall, watch: _Watch) -> Callable[..., Any]:
    """The function that takes the place of `symbol`."""
    kind = ctypes.CFUNCTYPE(call.result, *call.arguments, use_errno=True)
    inner = kind(ctypes.cast(getattr(ctypes.CDLL(None), symbol), c_void_p).value or 0)

    def called(*arguments: Any) -> Any:
        code = ctypes.get_errno()
        error = None if sys.is_finalizing() else watch.fault_of(call, arguments)
        ctypes.set_errno(code)
        if error is None:
            return inner(*arguments)
        if error == SHORT:
            return inner(*_shortened(call, arguments))
        ctypes.set_errno(error)
        return -1 if call.path != _MMAP else (1 << 64) - 1

    return kind(called)


class _Piece(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", c_void_p), ("size", c_size_t))


def _shortened(call: _DiskCall, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a write of half as many bytes."""
    descriptor, data, size, *position = arguments
    if call.arguments[2] is c_size_t:
        return descriptor, data, max(1, size // 2), *position
    first = _Piece.from_address(data)
    return descriptor, ctypes.addressof(_Piece(first.base, max(1, first.size // 2))), 1, *position


_WATCHED: Final = (
    (("libpython", "python3", "python"), frozenset({"mmap", "write", "writev"})),
    (("mmap.", "cpython."), frozenset[str]()),
)
"""By how the names of loaded files begin: the interpreter, Python's `mmap`, and LMDB; and what is left alone there: how
the interpreter takes memory, and `write`, which it calls in handlers of signals, where no Python may run.
"""


class _WatchedFile(io.FileIO):
    """A file that Python writes: in the place of the C library's `write`."""

    watch: _Watch

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        error = self.watch.fault_of(_CALLS["write"], (self.fileno(),))
        if error:
            raise OSError(error, os.strerror(error))
        return super().write(view if error is None else view[: max(1, len(view) // 2)])


def _opening(watch: _Watch) -> Callable[..., Any]:
    """`open` with files that are watched where they are written as bytes below the folder."""
    inner = io.open

    def opened(file: Any, mode: str = "r", buffering: int = -1, *arguments: Any, **named: Any) -> Any:
        is_path = isinstance(file, str | os.PathLike) and watch.is_below(os.fspath(file))
        if not is_path or "b" not in mode or not set(mode) & set("wax+"):
            return inner(file, mode, buffering, *arguments, **named)
        raw = _WatchedFile(os.fspath(file), mode.replace("b", ""))
        if buffering == 0:
            return raw
        return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

    return opened


_KEPT: Final[list[Any]] = []
"""What C code points to."""


def install(calls: DiskCalls) -> None:
    """Watch the calls of the interpreter, its `mmap`, and LMDB. To be called before threads use the disk."""
    import mmap  # noqa: F401 - these two libraries have to be loaded

    import lmdb.cpython  # noqa: F401

    watch = _Watch(calls)
    before: list[tuple[int, int]] = []
    for names, left_out in _WATCHED:
        for name, entry in (each for base in libraries(*names) for each in entries_of(base)):
            symbol = name.replace("64v2", "2").removesuffix("64")
            if symbol in _CALLS and symbol not in left_out:
                function = _between(name, _CALLS[symbol], watch)
                _KEPT.append(function)
                before.append((entry, ctypes.c_uint64.from_address(entry).value))
                replace_entry(entry, ctypes.cast(function, c_void_p).value or 0)  # type: ignore[arg-type]

    _WatchedFile.watch = watch
    builtins.open = io.open = _opening(watch)

    def restore() -> None:
        for entry, address in before:
            replace_entry(entry, address)

    atexit.register(restore)
