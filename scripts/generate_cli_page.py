"""Print `docs/CLI.md`: every command with its arguments and options, from the command line's own declarations."""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Iterator
from typing import Any, Final

import typer.main

from duramen.cli.app import whole_app

__all__ = ["cli_page"]

_INTRODUCTION: Final = """# Command reference

Generated from the command line's own help by `make docs`; `duramen COMMAND --help` says the same. Every command also
takes `-h` or `--help`."""


def cli_page() -> str:
    """The whole page, with a final line end."""
    root = typer.main.get_command(whole_app())
    parts = [_INTRODUCTION, _prose(root.help), _contents(root)]
    for path, command in _commands(root, ("duramen",)):
        parts += _section(path, command)
    return "\n\n".join(parts) + "\n"


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below a group, depth first, in the order of the help."""
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))


def _can_be_called(command: Any) -> bool:
    """Is it a command, or a group that is one by itself?"""
    return not hasattr(command, "commands") or bool(command.invoke_without_command)


def _contents(root: Any) -> str:
    lines = ["| command | what it does |", "|---|---|"]
    for path, command in _commands(root, ("duramen",)):
        if _can_be_called(command):
            name = " ".join(path)
            lines.append(f"| [`{name}`](#{'-'.join(path)}) | {_cell(_first_sentence(command))} |")
    return "\n".join(lines)


def _first_sentence(command: Any) -> str:
    paragraph = " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())
    return paragraph.split("; ")[0].rstrip(".")


def _section(path: tuple[str, ...], command: Any) -> list[str]:
    found = [f"## {' '.join(path)}", _prose(command.help)]
    if not _can_be_called(command):
        return found
    arguments = [each for each in command.params if not each.opts[0].startswith("-")]
    options = [each for each in command.params if each.opts[0].startswith("-") and not each.hidden]
    words = [each.metavar or each.name.upper() for each in arguments]
    usage = [word if each.required else f"[{word}]" for word, each in zip(words, arguments, strict=True)]
    found.insert(1, f"```\n{' '.join([*path, *(['[OPTIONS]'] if options else []), *usage])}\n```")
    if arguments:
        rows = [f"| `{word}` | {_cell(each.help or '')} |" for word, each in zip(words, arguments, strict=True)]
        found.append("\n".join(["| argument | meaning |", "|---|---|", *rows]))
    if options:
        rows = [f"| `{_names(each)}` | {_cell(each.help or '')} | {_default(each)} |" for each in options]
        found.append("\n".join(["| option | meaning | default |", "|---|---|---|", *rows]))
    return found


def _names(option: Any) -> str:
    names = "/".join([*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {_value_of(option)}"


def _value_of(option: Any) -> str:
    if option.metavar:
        return str(option.metavar)
    if choices := getattr(option.type, "choices", ()):
        return "\\|".join(str(getattr(each, "value", each)) for each in choices)
    return {"int": "N", "float": "NUMBER"}.get(option.type.name.removesuffix(" range"), "TEXT")


def _default(option: Any) -> str:
    value = option.default() if callable(option.default) else option.default
    value = value.value if isinstance(value, enum.Enum) else value
    said = [] if option.is_flag or value in (None, "", [], ()) else [f"`{value}`"]
    if option.required:
        said.append("required")
    if option.multiple:
        said.append("repeatable")
    if option.envvar:
        said.append(f"or `{option.envvar}`")
    return ", ".join(said)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _prose(text: str | None) -> str:
    """A command's help as Markdown: what it lays out by hand is a code block."""
    paragraphs = inspect.cleandoc(text or "").replace("\b\n", "\b").split("\n\n")
    return "\n\n".join(
        f"```\n{inspect.cleandoc(each[1:])}\n```" if each.startswith("\b") else each for each in paragraphs
    )


if __name__ == "__main__":
    sys.stdout.write(cli_page())
