"""The command line in tests: its own parser, and the JSON lines of a command that ran."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import typer

from duramen.cli.app import app

__all__ = ["lines", "parsed"]


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What our command line makes of arguments, without running the command. Raises what it refuses."""
    command: Any = typer.main.get_command(app)
    context = None
    rest = list(arguments)
    while hasattr(command, "get_command"):
        name = rest.pop(0)
        command = command.get_command(context, name)
        assert command is not None, f"there is no command {name!r} in {arguments}"
    return dict(command.make_context("duramen", rest).params)


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The documents that a command with `--json` printed; it ended well."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
