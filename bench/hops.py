"""How far a call travels: the Python calls of our packages that one request makes, and the changes of file among them.

    python -m bench.hops [put get incr flushdb] [--show]

A figure of the code's shape and not of its speed, so a busy machine does not change it: one server and one client in
one process, one table with one partition, one caller, nothing else under way. A profile hook in every thread notes each
call into `log_tier`, `serving_tier`, `router` and `duramen`, a coroutine's every step included. **File hops** are the
calls whose file differs from that of the call before. Calls that belong to a replica's follower or applier are counted
as `apply`: they happen with or after the acknowledgement. The median of some runs is reported; `--show` prints one.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import duramen
from duramen.server.roles.all_in_one import SingleServer
from router.endpoints.resp.server.sockets import RespSettings

__all__ = ["main"]

_TOP: Final = Path(__file__).parent.parent
_WORKERS: Final = str(_TOP / "log_tier/concurrency/workers.py")
"""The thread of a log's writer or of an applier begins here; what it does is the next function's."""
_PACKAGES: Final = tuple(f"{_TOP / name}/" for name in ("log_tier", "serving_tier", "router", "duramen"))
_WARM_UP: Final = 30
_RUNS: Final = 15
# A background call of the server (a heartbeat, a checkpoint) may fall into one run; the median does not show it.
_PAUSE_S: Final = 0.02
_STARTED_S: Final = 30.0


class _Step(NamedTuple):
    file: str
    function: str
    apply: bool


class _Recorder:
    """Notes calls while `on`. Its hook must be set before any thread starts."""

    def __init__(self) -> None:
        self.on = False
        self.steps: list[_Step] = []
        threading.setprofile(self._hook)
        sys.setprofile(self._hook)

    def _hook(self, frame: FrameType, event: str, _: Any) -> None:
        if not self.on or event != "call":
            return
        file = frame.f_code.co_filename
        if file.startswith(_PACKAGES) and "/proto/" not in file:
            self.steps.append(_Step(file[len(str(_TOP)) + 1 :], frame.f_code.co_name, _is_apply(frame)))

    def record(self, call: Callable[[], object]) -> list[_Step]:
        time.sleep(_PAUSE_S)
        self.steps = []
        self.on = True
        call()
        acknowledged = len(self.steps)
        time.sleep(_PAUSE_S)  # what is left to apply
        self.on = False
        steps = self.steps
        return [*steps[:acknowledged], *(step for step in steps[acknowledged:] if step.apply)]


def _is_apply(frame: FrameType) -> bool:
    """The call belongs to a task or thread of a replica: its outermost function of ours is the serving tier's."""
    outermost, at = "", frame
    while True:
        if at.f_code.co_filename.startswith(_PACKAGES) and at.f_code.co_filename != _WORKERS:
            outermost = at.f_code.co_filename
        if at.f_back is None:
            return "/serving_tier/" in outermost
        at = at.f_back


def _hops(steps: list[_Step]) -> int:
    return sum(one.file != other.file for one, other in pairwise(steps))


class _Server:
    """A server in a thread of its own. Without a RESP endpoint its clients call it by gRPC."""

    def __init__(self, folder: Path, settings: RespSettings) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._folder = folder
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self.port = self.resp_port = 0

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        # No call is slow here: on a busy machine notes of some would be counted.
        server = await SingleServer.open(self._folder, port=0, resp_endpoint=self._settings, slow_call_ms=0)
        self.port, self.resp_port = server.port, server.resp_port
        self._ready.set()
        await self._stop.wait()
        await server.close()

    @contextmanager
    def running(self) -> Iterator[_Server]:
        self._thread.start()
        assert self._ready.wait(_STARTED_S), f"the server did not start within {_STARTED_S:g} s"
        yield self
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def _report(name: str, runs: list[list[_Step]], *, show: bool) -> None:
    before = [[step for step in run if not step.apply] for run in runs]
    apply = [[step for step in run if step.apply] for run in runs]
    median = statistics.median_low
    print(
        f"{name:8} calls {median([len(run) for run in before]):5} "
        f"files {median([len({step.file for step in run}) for run in before]):4} "
        f"file hops {median([_hops(run) for run in before]):5}   apply: "
        f"calls {median([len(run) for run in apply]):5} file hops {median([_hops(run) for run in apply]):5}"
    )
    if show:
        chosen = min(before, key=len)
        last = ""
        for step in chosen:
            print(f"  {step.file if step.file != last else '':60} {step.function}")
            last = step.file


def main(arguments: list[str] | None = None) -> int:
    """Count what was asked for; a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.hops", description="Count calls and file hops of a request.")
    parser.add_argument("walks", nargs="*", metavar="WALK", help="put, get, incr, flushdb; all if none")
    parser.add_argument("--show", action="store_true", help="print the calls of one run, those of apply left out")
    options = parser.parse_args(arguments)
    recorder = _Recorder()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        by_grpc = opened.enter_context(_Server(folder / "grpc", RespSettings()).running())
        by_resp = opened.enter_context(_Server(folder / "resp", RespSettings(port=0)).running())
        database = opened.enter_context(duramen.connect(f"127.0.0.1:{by_grpc.port}"))
        resp = opened.enter_context(socket.create_connection(("127.0.0.1", by_resp.resp_port)))
        table = database.create_table("flights", partitions=1)

        def command(text: bytes) -> Callable[[], bytes]:
            def call() -> bytes:
                resp.sendall(text)
                return resp.recv(1 << 16)

            return call

        walks: dict[str, Callable[[], object]] = {
            "put": lambda: table.put(b"key", b"value"),
            "get": lambda: table.get(b"key"),
            "incr": command(b"*2\r\n$4\r\nINCR\r\n$7\r\ncounter\r\n"),
            "flushdb": command(b"*1\r\n$7\r\nFLUSHDB\r\n"),
        }
        for name in options.walks or walks:
            for _ in range(3 if name == "flushdb" else _WARM_UP):
                walks[name]()
            runs = [recorder.record(walks[name]) for _ in range(5 if name == "flushdb" else _RUNS)]
            _report(name, runs, show=options.show)
    return 0


if __name__ == "__main__":
    sys.exit(main())
