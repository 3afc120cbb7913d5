"""A reader at a terminal: runs a page's blocks in order, in one folder, and compares what the page says comes out.

Three things differ from what the page says, so that tests may run side by side: ports are free ones, `duramen` is the
one of this environment, and a server that is started ends the one before it.
"""

from __future__ import annotations

import ast
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kit.deadlines import patience_s
from kit.held_port import HeldPort
from kit.pages.markdown import Block

__all__ = ["Terminal"]

_START_S: Final = 60.0
_STOP_S: Final = 30.0
_COMMAND_S: Final = 120.0


class Terminal:
    """A working directory, an environment, at most one running server, and one Python session."""

    def __init__(self, folder: Path, *, ports: tuple[int, ...] = (), words: Mapping[str, str] | None = None) -> None:
        """`ports`: numbers in the page, each of which becomes a free one. `words`: other text to replace."""
        self.folder = folder
        self.compared = 0
        """Results that the page states and that came out."""
        page = sys.modules["page"] = ModuleType("page")  # a dataclass looks for its module there
        self.names: dict[str, Any] = page.__dict__
        self._ports = {str(port): HeldPort() for port in ports}
        self._words = {**(words or {}), **{port: str(held.number) for port, held in self._ports.items()}}
        self._default_port = self._words.get("7070", "7070")
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "DURAMEN_AT": f"localhost:{self._default_port}",
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }
        self._server: subprocess.Popen[bytes] | None = None

    def check_block(self, block: Block) -> None:
        """Run one block: Python in the one session, anything else line by line as commands.

        Fails the test where a command fails, and where something else comes out than the page says.
        """
        if block.language == "python":
            self._python(block)
        else:
            self._commands(block)

    def close(self) -> None:
        """Leave no process, no port and no module behind."""
        sys.modules.pop("page", None)
        self._stop_server()
        for each in self._ports.values():
            each.close()

    def _stop_server(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            try:
                self._server.wait(patience_s(_STOP_S))
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            self._server = None

    def _replaced(self, text: str) -> str:
        for word, other in self._words.items():
            text = text.replace(word, other)
        return text

    # --- Python

    def _python(self, block: Block) -> None:
        """Execute the statements; an expression whose comment begins with a literal must have that value."""
        text = "\n" * (block.line - 1) + self._replaced(block.text)
        lines = text.splitlines()
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            for statement in ast.parse(text).body:
                said = _literal_after(lines[(statement.end_lineno or 0) - 1])
                if isinstance(statement, ast.Expr) and said is not None:
                    value = eval(compile(ast.Expression(statement.value), block.heading, "eval"), self.names)
                    assert value == said[0], f"line {statement.lineno} says {said[0]!r}, and it is {value!r}"
                    self.compared += 1
                else:
                    exec(compile(ast.Module([statement], []), block.heading, "exec"), self.names)
        finally:
            os.chdir(before)

    # --- commands

    def _commands(self, block: Block) -> None:
        commands: list[tuple[str, list[str]]] = []
        for line in block.text.splitlines():
            if line.startswith("$ "):
                commands.append((self._replaced(line[2:]), []))
            elif line:
                commands[-1][1].append(line)
        for command, output in commands:
            if command.startswith("duramen up"):
                self._start(command)
            elif command.startswith("export "):
                name, value = command.split()[1].split("=")
                self._environment[name] = value
            else:
                self._command(command, output)

    def _command(self, command: str, said: list[str]) -> None:
        done = subprocess.run(
            ["bash", "-c", command.replace("redis-cli ", f"redis-cli -p {self._words.get('6379', '6379')} ", 1)],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=patience_s(_COMMAND_S),
            check=False,
        )
        assert done.returncode == 0, f"{command}: code {done.returncode}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        if said:
            assert done.stdout.splitlines() == said, f"{command}: {done.stdout}"
            self.compared += 1

    def _start(self, command: str) -> None:
        self._stop_server()
        arguments = shlex.split(command, comments=True)
        if "--port" not in arguments:
            arguments += ["--port", self._default_port]
        port = arguments[arguments.index("--port") + 1]
        log = self.folder / "server.log"
        with log.open("ab") as output:
            self._server = subprocess.Popen(
                arguments,
                cwd=self.folder,
                env=self._environment,
                executable=str(Path(sys.executable).parent / "duramen"),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + patience_s(_START_S)
        health = [str(Path(sys.executable).parent / "duramen"), "health", "--at", f"localhost:{port}"]
        if "--certs" in arguments:
            certs = Path(arguments[arguments.index("--certs") + 1])
            health[-1] = f"duramens://{health[-1]}"
            health += ["--ca", str(certs / "ca.crt")]
        while subprocess.run(health, cwd=self.folder, capture_output=True, check=False).returncode != 0:
            assert self._server.poll() is None, f"{command}: {log.read_text()}"
            assert time.monotonic() < deadline, f"{command} does not serve: {log.read_text()}"


def _literal_after(line: str) -> tuple[Any] | None:
    """The value with which a line's comment begins, up to a colon, if it is a Python literal."""
    _, mark, comment = line.rpartition("  # ")
    if not mark:
        return None
    try:
        return (ast.literal_eval(comment.split(": ")[0].strip()),)
    except (ValueError, SyntaxError):
        return None
