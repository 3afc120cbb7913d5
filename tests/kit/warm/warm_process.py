"""`subprocess.Popen` that forks a warm process where the command is one of ours."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, AnyStr, Final

from kit.warm.forks import REQUEST_BYTES

__all__ = ["WarmProcess", "is_warm", "run_warm"]

_PR_SET_CHILD_SUBREAPER: Final = 36

_READ_AT_START: Final = ("PYTHON", "GRPC_", "LD_", "MALLOC_", "GLIBC_", "LC_", "LANG", "TZ", "COV_", "COVERAGE_")
"""How the names of variables begin that a process reads once, when it starts or imports."""

_LIMITS: Final = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA, resource.RLIMIT_CORE)


class _Forks:
    """The process that forks; of one process of tests, from the first start that it is asked for."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._environment: dict[str, str] = {}
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl

    def takes(self, environment: Mapping[str, str]) -> bool:
        """Would a fork read the same variables at its start as a process with these? Where this process' own have
        changed since the one that forks was started, it is started anew.
        """
        wanted = _read_at_start(environment)
        with self._asking:
            if self._socket is None or (wanted != self._environment and wanted == _read_at_start(os.environ)):
                self._start()
            return self._environment == wanted

    def fork(self, request: dict[str, Any], files: Sequence[int]) -> int:
        """The id of a new child of this process."""
        with self._asking:
            assert self._socket is not None, "`takes` has started it"
            self._takes_orphans(True)
            try:
                socket.send_fds(self._socket, [json.dumps(request).encode()], files)
                said = self._socket.recv(20)
            finally:
                self._takes_orphans(False)
            # The new process begins now: what it leaves goes to nobody here.
            self._socket.send(b".")
        assert said, "the process that forks has ended: its standard error says why"
        return int(said)

    def _takes_orphans(self, takes: bool) -> None:
        """Only for as long as a fork takes: what a server leaves, when it is killed, is not this process' child."""
        if self._prctl(_PR_SET_CHILD_SUBREAPER, int(takes), 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")

    def _start(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()  # which ends it
            self._process.wait()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = str(Path(__file__).with_name("forks.py"))
        with theirs:
            # Of what a run of tests leaves to it, it keeps nothing open but its socket, which ends it.
            self._process = subprocess.Popen(
                [sys.executable, program, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._environment = _read_at_start(os.environ)


_forks = _Forks()


class WarmProcess(subprocess.Popen[AnyStr]):
    """What `Popen` is, with the same arguments. Where it runs `sys.executable -m duramen …` or `sys.executable -c …`,
    and asks for nothing that a fork would not have, the process is forked from one that has imported Duramen.
    """

    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: bool,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        *rest: Any,
    ) -> None:
        """What `Popen` calls to start the program, when it has made its pipes."""
        environment = os.environ if env is None else env
        plain = executable is None and preexec_fn is None and close_fds and not pass_fds
        if not (plain and is_warm(args) and rest[2] is False and _forks.takes(environment)):
            start: Any = super()
            start._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
            return
        ends = rest[3:9]
        reads, writes, errors = ends[0], ends[3], ends[5]
        self.pid = _forks.fork(
            {
                "arguments": [os.fspath(each) for each in args[1:]],
                "environment": {**environment},
                "folder": os.fspath(cwd or os.getcwd()),
                "limits": [(number, resource.getrlimit(number)) for number in _LIMITS],
                "umask": _umask(),
            },
            [own if own != -1 else inherited for own, inherited in ((reads, 0), (writes, 1), (errors, 2))],
        )
        self._child_created = True
        close: Any = self
        close._close_pipe_fds(*ends)


def run_warm(
    command: Sequence[str], *, given: bytes | None = None, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` with its output captured. `given`: its standard input. `options`: those of `Popen`."""
    pipes = {"stdin": subprocess.DEVNULL if given is None else subprocess.PIPE}
    pipes |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with WarmProcess[Any](command, **{**pipes, **options}) as process:
        try:
            output, errors = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def is_warm(command: Any) -> bool:
    """Is it a program of ours, run by this interpreter without options?"""
    if isinstance(command, str | bytes) or len(command) < 3 or command[0] != sys.executable:
        return False
    size = sum(len(os.fspath(each)) for each in command)
    return (command[1] == "-c" or [*command[1:3]] == ["-m", "duramen"]) and size < REQUEST_BYTES // 4


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _umask() -> int:
    """This process' own. `os.umask` would have to change it for a moment, for all threads."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Umask:")), 8)
