"""The command line's own parser, for tests of what names its commands."""

from __future__ import annotations

from typing import Any

import typer

from duramen.cli.app import app

__all__ = ["parsed"]


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
