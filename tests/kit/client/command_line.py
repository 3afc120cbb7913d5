"""The command line in tests: its own parser, commands in this process, and the JSON lines of one that ran."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from contextvars import copy_context
from typing import Any
from unittest import mock

import typer

from duramen.cli import run
from duramen.cli.app import whole_app

__all__ = ["lines", "parsed", "run_here"]


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What our command line makes of arguments, without running the command. Raises what it refuses."""
    command: Any = typer.main.get_command(whole_app())
    context = None
    rest = list(arguments)
    while hasattr(command, "get_command"):
        name = rest.pop(0)
        command = command.get_command(context, name)
        assert command is not None, f"there is no command {name!r} in {arguments}"
    return dict(command.make_context("duramen", rest).params)


def run_here(
    *arguments: str, at: str | None = None, stdin: bytes = b"", columns: int = 120
) -> subprocess.CompletedProcess[str]:
    """What `run_duramen` does, without a process: Python's start and the imports cost far more than a command.

    What only a process shows (signals, pipes, its end) needs `run_duramen`, and with `fresh=True` what its imports do.
    """
    output, errors = _captured(), _captured()
    environment = {name: value for name, value in os.environ.items() if name != "DURAMEN_AT"}
    environment |= {"COLUMNS": str(columns), "NO_COLOR": "1"} | ({} if at is None else {"DURAMEN_AT": at})
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        # What a server's command sets for its calls, such as its certificates, ends with it, as in a process.
        code = copy_context().run(run, arguments)
    return subprocess.CompletedProcess(["duramen", *arguments], code, _text_of(output), _text_of(errors))


def _captured() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text_of(captured: io.TextIOWrapper) -> str:
    buffer = captured.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The documents that a command with `--json` printed; it ended well."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
