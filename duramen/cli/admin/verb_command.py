"""The command of a verb, made from its declaration in `router.admin.verbs`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer

from duramen.cli.admin.arguments import DryRun, Wait, WaitTimeout, Yes, absolute_url, parse_partition, parse_place
from duramen.cli.terminal.options import AT_DEFAULT, At, Json
from router.admin.verb import Argument, OfPartitionArgument, Option, PartitionArgument, Verb

__all__ = ["command_of"]

# The command's parameter for a table and its partition.
_PLACE: Final = "where"

_COMMON: Final = (
    ("dry_run", DryRun, False),
    ("wait", Wait, True),
    ("timeout", WaitTimeout, None),
    ("at", At, AT_DEFAULT),
    ("json", Json, False),
)


def command_of(verb: Verb) -> Callable[..., int]:
    """The command, as Typer takes it: it makes the verb's change of what it is given, and carries it out."""
    fields = list(_fields(verb))
    asks = [("yes", Yes, False)] if verb.destroys else []

    def command(**given: Any) -> int:
        from duramen.cli.admin.change import carry_out

        common = {name: given.pop(name) for name, *_ in (*asks, *_COMMON)}
        if _PLACE in given:
            given["table"], given["partition"] = _parse_place(verb)(given.pop(_PLACE))
        if "url" in given:
            given["url"] = absolute_url(given["url"])
        return carry_out(verb.change(**given), destroys=verb.destroys, destroys_if=verb.destroys_if, **common)

    parameters = [*fields, *(_parameter(name, hint, default) for name, hint, default in (*asks, *_COMMON))]
    command.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__name__ = verb.command.replace("-", "_")
    command.__doc__ = _help(verb)
    return command


def _parameter(name: str, hint: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=hint, default=default)


def _fields(verb: Verb) -> Iterator[inspect.Parameter]:
    change: Any = verb.change
    hints = get_type_hints(change, include_extras=True)
    for name in change._fields:
        kind, how = get_args(hints[name])
        default = change._field_defaults.get(name, inspect.Parameter.empty)
        match how:
            case PartitionArgument():
                argument = typer.Argument(metavar=how.metavar, help=how.help)
                yield _parameter(_PLACE, Annotated[str, argument])
            case Argument():
                argument = typer.Argument(metavar=how.metavar, help=how.help, min=how.least)
                yield _parameter(name, Annotated[kind, argument], default)
            case Option():
                option = typer.Option(how.flag, metavar=how.metavar or None, help=how.help, min=how.least)
                yield _parameter(name, Annotated[kind, option], default)
            case _:
                assert how is OfPartitionArgument, (
                    f"{verb.command}: nothing says how {name} is given on the command line"
                )


def _parse_place(verb: Verb) -> Callable[[str], tuple[str, Any]]:
    change: Any = verb.change
    return parse_place if "partition" in change._field_defaults else parse_partition


def _help(verb: Verb) -> str:
    text = inspect.cleandoc(verb.change.__doc__ or "")
    examples = "\n".join(f"  duramen admin {example}" for example in verb.examples)
    return f"{text}\n\n\b\n{examples}"
