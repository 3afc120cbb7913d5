"""Processes that a fork server forks are as those that were started, however it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path

import pytest
from kit.deadlines import until

from duramen.cli.servers.fork_server import PRELOADED
from duramen.server.supervisor.forked import ForkedProcess, ForkServer
from duramen.server.supervisor.stopping import stop_process
from log_tier.model.errors import DuramenError

pytestmark = pytest.mark.embedded_log_only


class Forks:
    """A fork server, and a file for what its processes say of errors."""

    def __init__(self, folder: Path) -> None:
        self.server = ForkServer(folder / "forks.err")
        self.errors = folder / "errors"

    async def fork(self, *arguments: str, **environment: str) -> ForkedProcess:
        with self.errors.open("ab") as errors:
            return await self.server.fork(arguments, environment=environment, errors=errors.fileno())

    async def log(self, folder: Path) -> ForkedProcess:
        """A log that answers."""
        process = await self.fork(
            *("serve", "log", "--json", "--port", "0", "--http-port", "-1", "--data", str(folder), "--insecure")
        )
        assert json.loads(await process.stdout.readline())["pid"] == process.pid
        return process


@pytest.fixture
async def forks(tmp_path: Path) -> AsyncIterator[Forks]:
    made = Forks(tmp_path)
    yield made
    await made.server.close()


def fork_server_of(process: ForkedProcess) -> int:
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_it_ends_with_its_code_and_says_why(forks: Forks) -> None:
    process = await forks.fork("serve", "log", "--port", "99999", "--json", "--data", "d")
    assert await process.wait() == 2
    assert "99999" in forks.errors.read_text()
    assert await process.stdout.read() == b""
    process.send_signal(signal.SIGTERM)  # nobody is there any more
    assert process.returncode == 2


async def test_it_is_a_process_of_its_own(forks: Forks, tmp_path: Path) -> None:
    process = await forks.log(tmp_path / "log")
    try:
        assert os.getsid(process.pid) == process.pid, "Ctrl-C of a terminal is not for it"
        open_files = {os.readlink(f"/proc/{process.pid}/fd/{number}") for number in (0, 2)}
        assert open_files == {os.devnull, str(forks.errors)}
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:")), 16)
        assert not caught & 1 << (signal.SIGINT - 1)
    finally:
        await stop_process(process, timeout_s=60)
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_signal_ends_it_also_while_it_is_paused(forks: Forks, tmp_path: Path, number: signal.Signals) -> None:
    process = await forks.log(tmp_path / "log")
    process.send_signal(signal.SIGSTOP)
    if number is signal.SIGKILL:
        process.send_signal(number)
        assert await process.wait() == -number
    else:
        await stop_process(process, timeout_s=60)
        assert process.returncode == 0


async def test_many_at_once_have_their_own_environment(forks: Forks, tmp_path: Path) -> None:
    async def code(number: int) -> tuple[int, str]:
        process = await forks.fork(
            "serve", "router", "--json", "--port", "0", DURAMEN_ROUTER_LOG=f"kafka+nothing{number}://"
        )
        return await process.wait(), f"kafka+nothing{number}"

    found = await asyncio.gather(*(code(number) for number in range(8)))
    said = forks.errors.read_text()
    assert all(code != 0 and name in said for code, name in found), said
    assert not [name for name in os.environ if name.startswith("DURAMEN_ROUTER")]


async def test_they_end_with_the_process_that_forked_them_and_the_next_one_works(forks: Forks, tmp_path: Path) -> None:
    process = await forks.log(tmp_path / "log")
    os.kill(fork_server_of(process), signal.SIGKILL)
    assert await process.wait() == 255
    again = await forks.log(tmp_path / "log")  # the folder is free
    assert fork_server_of(again) != os.getpid()
    await stop_process(again, timeout_s=60)
    assert again.returncode == 0


async def test_closing_ends_what_runs(forks: Forks, tmp_path: Path) -> None:
    process = await forks.log(tmp_path / "log")
    await forks.server.close()
    assert await process.wait() == 255
    await forks.server.close()


async def test_who_does_not_wait_for_it_leaves_no_process(forks: Forks, tmp_path: Path) -> None:
    first = await forks.log(tmp_path / "log")
    parent = fork_server_of(first)
    os.kill(parent, signal.SIGSTOP)
    asked = asyncio.create_task(forks.log(tmp_path / "other"))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    os.kill(parent, signal.SIGCONT)
    children = Path(f"/proc/{parent}/task/{parent}/children")
    await forks.fork("--version")  # the answer to it comes after that of the cancelled one
    await until(lambda: children.read_text().split() == [str(first.pid)])  # the other one is gone
    await stop_process(first, timeout_s=60)


async def test_one_that_does_not_start_is_an_error(forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(DuramenError, match=r"forks\.err"):
        await forks.log(Path("d"))


@pytest.mark.parametrize("name", PRELOADED)
def test_what_is_imported_before_is_there(name: str) -> None:
    assert import_module(name)


def test_a_server_imports_next_to_nothing_by_itself(tmp_path: Path) -> None:
    """What is missing in the list is imported by every process of every cluster."""
    program = (
        "import sys, atexit\nfrom importlib import import_module\nfrom duramen.cli import main\n"
        "from duramen.cli.servers.fork_server import PRELOADED\n"
        "for name in PRELOADED: import_module(name)\n"
        "before = set(sys.modules)\n"
        "atexit.register(lambda: print(*(set(sys.modules) - before), file=sys.stderr))\n"
        "sys.argv[:] = ['duramen', *sys.argv[1:]]\nmain()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "serve", "log", "--json", "--port", "0", "--data", str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    process.terminate()
    _, late = process.communicate()
    ours = [name for name in late.split() if name.split(".")[0] in ("duramen", "log_tier", "router", "serving_tier")]
    assert process.returncode == 0
    assert not ours
