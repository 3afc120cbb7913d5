"""Of all commands, those that a command line can mean."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import typer
from typer.main import get_command_name
from typer.models import CommandInfo, TyperInfo

__all__ = ["asked_commands", "name_of"]


def asked_commands(app: typer.Typer, arguments: Sequence[str]) -> typer.Typer:
    """The app with the one command that `arguments` begin with; all of it where they begin with none: for its help, and
    for a mistake, whose message may name another command.

    What the parser makes of a command takes 1.5 ms, and there are 85: all of them take longer than most commands.
    The app is not changed.
    """
    if not arguments:
        return app
    name, *rest = arguments
    commands = [each for each in app.registered_commands if name_of(each) == name]
    groups = [_asked_of(each, rest) for each in app.registered_groups if each.name == name]
    if not commands and not groups:
        return app
    asked = copy(app)
    asked.registered_commands, asked.registered_groups = commands, groups
    return asked


def name_of(command: CommandInfo) -> str:
    """Its own, or that of its function."""
    return command.name or get_command_name(getattr(command.callback, "__name__", ""))


def _asked_of(group: TyperInfo, arguments: Sequence[str]) -> TyperInfo:
    assert group.typer_instance is not None, "add_typer() was given one"
    asked = copy(group)
    asked.typer_instance = asked_commands(group.typer_instance, arguments)
    return asked
