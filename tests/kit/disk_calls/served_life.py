"""One life of a server whose disk calls fail: everything that touches its files is done once, by a client and an
operator who write down what was acknowledged and what was refused."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duramen
from duramen.blocking import Database
from kit.client.server_process import read_line
from kit.deadlines import patience_s
from kit.disk_calls.call_faults import DiskCalls
from kit.warm.warm_process import WarmProcess
from router.admin.client import AdminConnection
from router.admin.verbs import AdminChange, Clear, RestoreNode, RestoreTable, TakeSnapshots

__all__ = ["ServedLife"]

_CALL_S: Final = 10.0
_START_S: Final = 40.0
_STOP_S: Final = 40.0
_JOB_S: Final = 30.0

_UNTYPED: Final = ("OSError", "PermissionError", "FileNotFoundError", "lmdb.Error", "Errno", "ended by a bug")
"""Words of errors that are not ours."""

_EXITS: Final = frozenset({*range(1, 64)})
"""Exit codes that `duramen` gives; a signal is none of them."""


class ServedLife:
    """`live()` is the life under faults, `look()` what is there afterwards, with a disk that is whole again."""

    def __init__(self, folder: Path, calls: DiskCalls) -> None:
        self.data = calls.root
        self.calls = calls
        self.kept: dict[str, dict[bytes, bytes]] = {}
        """What was acknowledged, by table."""
        self.refused: list[str] = []
        """Messages of typed errors that callers got, and the reasons of failed jobs."""
        self.wrong: list[str] = []
        """What breaks a promise."""
        self.exits: list[int] = []
        """The exit codes of the servers."""
        self._errors = folder / "server.err"
        self._server: tuple[subprocess.Popen[bytes], int] | None = None
        self._number = 0

    @property
    def errors(self) -> str:
        """What the servers wrote on their standard error."""
        return self._errors.read_text()

    # --- the life

    def live(self) -> None:
        """Two runs of the server under the faults of `calls`."""
        for steps in (self._first_run, self._second_run):
            server = self._start(faulty=True)
            if server is not None:
                process, port = self._server = server
                try:
                    with duramen.connect(f"127.0.0.1:{port}", timeout=patience_s(_CALL_S)) as database:
                        steps(database, port)
                finally:
                    self._stop(process)

    def _first_run(self, database: Database, port: int) -> None:
        for name in ("flights", "cleared"):
            if self._attempt(lambda name=name: database.create_table(name, partitions=2)):  # type: ignore[misc]
                self._write(database, name, 8)
        self._job(port, TakeSnapshots())
        self._write(database, "flights", 8)
        self._job(port, RestoreNode("n1", "snapshot"))
        token = self._attempt(lambda: str(database.token()))
        before = dict(self.kept.get("flights", {}))
        if token and self._job(port, RestoreTable("flights", "then", token)):
            self.kept["then"] = before
        if self._job(port, Clear("cleared")):
            self.kept.pop("cleared", None)
        if self._attempt(lambda: database.create_table("dropped", partitions=1)):
            self._attempt(lambda: database.table("dropped").put(b"k", b"v"))
            self._attempt(lambda: database.drop_table("dropped"))
        self._write(database, "flights", 4)

    def _second_run(self, database: Database, port: int) -> None:
        self._write(database, "flights", 4)
        self._job(port, TakeSnapshots("flights"))

    def _write(self, database: Database, name: str, count: int) -> None:
        """Put keys that were never written before, and read each of them."""
        if name not in (self._attempt(lambda: [each.name for each in database.tables()]) or ()):
            return
        table, kept = database.table(name), self.kept.setdefault(name, {})
        for _ in range(count):
            self._number += 1
            key, value = b"key %d" % self._number, b"value %d " % self._number * 40
            if self._attempt(lambda key=key, value=value: table.put(key, value)):  # type: ignore[misc]
                kept[key] = value
                found = self._attempt(lambda key=key: [table.get(key)])  # type: ignore[misc]
                if found and found != [value]:
                    self.wrong.append(f"{name} has {found[0]!r} for {key!r}, which was just put")

    # --- afterwards

    def look(self) -> None:
        """A server without faults on what the life left: everything acknowledged is there, and it takes writes."""
        server = self._start(faulty=False)
        if server is None:
            self.wrong.append("the server does not start on a disk that is whole again")
            return
        process, port = server
        with duramen.connect(f"127.0.0.1:{port}", timeout=patience_s(_CALL_S)) as database:
            for name, kept in self.kept.items():
                found = dict(database.table(name).scan(level="strong"))
                lost = {key for key, value in kept.items() if found.get(key) != value}
                if lost:
                    self.wrong.append(f"{name} lacks {sorted(lost)}, which were acknowledged")
                database.table(name).put(b"after", b"the life")
                if database.table(name).get(b"after") != b"the life":
                    self.wrong.append(f"{name} does not show what was put afterwards")
            asyncio.run(self._compare(port))
        self._stop(process)
        if self.exits[-1]:
            self.wrong.append(f"the last server ended with {self.exits[-1]}")

    async def _compare(self, port: int) -> None:
        """`admin verify` of every table."""
        async with AdminConnection(f"127.0.0.1:{port}") as admin:
            for name in self.kept:
                async for compared in admin.verify(name):
                    if compared.verdict not in ("equal", "single"):
                        self.wrong.append(f"{name}: replicas differ: {compared}")

    def troubles(self) -> list[str]:
        """What is wrong with how the life went, beside `wrong`: a failure that is not typed, not named, or a bug."""
        failed, said = self.calls.failed(), "\n".join([*self.refused, self.errors])
        found = [f"{word} in what was said" for word in ("Traceback", *_UNTYPED) if word in said]
        names = {name for path in failed for name in (path, path.rpartition("/")[0])}
        if failed and said.strip() and not any(name in said for name in names):
            found.append(f"nobody named {failed}")
        if any(self.exits) and not self.errors:
            found.append(f"the exit codes are {self.exits}, and no reason was given")
        if any(code not in (0, *_EXITS) for code in self.exits):
            found.append(f"the exit codes are {self.exits}")
        return [*self.wrong, *found]

    # --- its parts

    def _start(self, *, faulty: bool) -> tuple[subprocess.Popen[bytes], int] | None:
        """The server and its port; None if it ended, which is then told."""
        environment = self.calls.environment() if faulty else None
        command = [sys.executable, "-m", "duramen", "up", "--data", str(self.data), "--port", "0", "--json"]
        command.append("--no-history")  # whose rows come when a minute is over, wherever the traffic is then
        with self._errors.open("ab") as errors:
            process = WarmProcess[bytes](
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment
            )
        line = read_line(process, _START_S)
        if line:
            return process, int(json.loads(line)["port"])
        self._end(process)  # its output has ended, and so has it in a moment
        return None

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(patience_s(_STOP_S))
        except subprocess.TimeoutExpired:
            self.wrong.append("the server hangs")
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
        self.exits.append(process.returncode)

    def _attempt(self, call: Callable[[], Any]) -> Any:
        """The result of a call; None where it was refused with a typed error, and by a server that has ended."""
        if self._server is not None and self._server[0].poll() is not None:
            return None
        try:
            return call()
        except duramen.DuramenError as error:
            self.refused.append(error.message)
            return None

    def _job(self, port: int, change: AdminChange) -> bool:
        """Whether a job was done."""
        return bool(self._attempt(lambda: asyncio.run(self._followed(port, change))))

    async def _followed(self, port: int, change: AdminChange) -> bool:
        async with AdminConnection(f"127.0.0.1:{port}") as admin:
            plan = await admin.start(change)
            if not plan.HasField("job"):
                return True
            try:
                async with asyncio.timeout(patience_s(_JOB_S)):
                    async for job in admin.follow_job(plan.job):
                        if job.state in ("done", "failed", "aborted"):
                            if job.state != "done":
                                self.refused += [f"{task.action}: {task.note}" for task in job.task_list]
                            return bool(job.state == "done")
            except TimeoutError:
                job = await admin.job(plan.job)
                self.wrong.append(f"{change} hangs: {job}")
        return False
