"""The list of commands, and how any of them ends."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import typer
from typer.exceptions import TyperException

import duramen
from duramen.cli.grpc_core import set_up_grpc_core
from duramen.cli.terminal.asked_commands import asked_commands
from duramen.cli.terminal.exits import ERROR, INTERRUPTED, USAGE, exit_code_of
from duramen.cli.terminal.output import say_error, say_failure
from duramen.cli.terminal.tls_options import with_tls_options
from log_tier.model.errors import DuramenError

__all__ = ["run_app", "whole_app"]

_HELP = """
Duramen: a log-structured key-value database.

A first minute, in two terminals:

\b
  duramen up                                      # a server: folder ./duramen-data, port 7070
  duramen table create flights
  duramen put flights UA1545 departed
  duramen get flights UA1545
  duramen put flights UA1545 landed --if-present
  duramen update flights seats --add -1
  duramen scan flights --prefix UA
  duramen watch flights --from-start
  duramen load flights flights.csv --key carrier --key flight

Keys and values are UTF-8 text; what is no printable text is shown, and may be typed, as base64:… A write prints its
place in the log; with --token it prints a token, and any other command that gets it with --after sees that write.

\b
Exit codes:
  0    done
  1    error
  2    the command's arguments are invalid
  3    not found: the key or the table
  4    rejected: a condition did not hold, or the value is no number
  5    a retry can help: no server, too slow, disk full, or no reply
  6    refused: nobody proved who calls, or the user may not do this
  7    another process has the data folder open
  130  interrupted
"""

_GROUP: Final = "app"

_VERSION: Final = "--version"

_LISTED: Final[dict[str, str]] = {
    "up": "duramen.cli.servers.up:up",
    "serve": "duramen.cli.servers.serve:app",
    "table": "duramen.cli.data.tables:app",
    "put": "duramen.cli.data.records:put",
    "get": "duramen.cli.data.records:get",
    "delete": "duramen.cli.data.records:delete",
    "update": "duramen.cli.data.records:update",
    "history": "duramen.cli.past.history:history",
    "diff": "duramen.cli.past.diff:diff",
    "token": "duramen.cli.past.token:token",
    "scan": "duramen.cli.data.streams:scan",
    "find": "duramen.cli.data.find:find",
    "search": "duramen.cli.texts.search:search",
    "watch": "duramen.cli.data.streams:watch",
    "load": "duramen.cli.data.load:load",
    "bulk": "duramen.cli.spark.bulk:app",
    "repush": "duramen.cli.spark.pipeline:repush",
    "export": "duramen.cli.spark.pipeline:export",
    "admin": "duramen.cli.admin.app:app",
    "audit": "duramen.cli.data.audit:app",
    "check": "duramen.cli.servers.check:check",
    "health": "duramen.cli.servers.health:health",
    "status": "duramen.cli.sight.status:status",
    "top": "duramen.cli.sight.top:top",
    "slow": "duramen.cli.sight.slow:slow",
    "log": "duramen.cli.files.app:app",
    "cert": "duramen.cli.certs.app:app",
    "user": "duramen.cli.users.user:app",
    "role": "duramen.cli.users.role:app",
    "quota": "duramen.cli.users.quota:app",
    "grant": "duramen.cli.users.rights:grant",
    "revoke": "duramen.cli.users.rights:revoke",
    "whoami": "duramen.cli.users.rights:whoami",
}
"""Each command's module and function, or a group's `app`, in the order of the help. All modules together take longer to
import than most commands run, so one is imported when its command is asked for."""


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"duramen {duramen.__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Who calls: a file with a user's token, of mode 0600. Stands before the command; also "
            "DURAMEN_TOKEN_FILE, DURAMEN_TOKEN, or DURAMEN_USER with DURAMEN_PASSWORD.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option(_VERSION, callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    context.obj = token_file


def _app_of(*names: str) -> typer.Typer:
    """An app with these commands."""
    app = typer.Typer(
        name="duramen",
        help=_HELP,
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_root)
    for name in names:
        listed = _listed(name)
        app.registered_commands += listed.registered_commands
        app.registered_groups += listed.registered_groups
    return app


@cache
def _listed(name: str) -> typer.Typer:
    """One command or group, with the options of TLS."""
    module, _, attribute = _LISTED[name].partition(":")
    found = getattr(import_module(module), attribute)
    app = typer.Typer()
    if attribute == _GROUP:
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)
    return with_tls_options(app)


@cache
def whole_app() -> typer.Typer:
    """All commands: for the help, and for a mistake, whose message may name another command."""
    return _app_of(*_LISTED)


def _app_for(arguments: list[str]) -> typer.Typer:
    """With the command that `arguments` ask for; without any for the version; or else with all."""
    if arguments == [_VERSION]:
        return _app_of()
    first = arguments[0] if arguments else ""
    return _app_of(first) if first in _LISTED else whole_app()


def run_app(arguments: list[str]) -> int:
    """Run a command; every error becomes one line and an exit code here. A bug of ours stays a traceback."""
    set_up_grpc_core()
    as_json = "--json" in arguments
    try:
        app = asked_commands(_app_for(arguments), arguments)
        code = app(arguments, prog_name="duramen", standalone_mode=False)
        sys.stdout.flush()
    except TyperException as error:
        return _usage(error, as_json)
    except DuramenError as error:
        say_failure(error, as_json=as_json)
        return exit_code_of(error)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has seen enough (`| head`). Nothing may be written when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ERROR
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say_error("os_error", f"{where}{error.strerror or error}", {}, retryable=False, as_json=as_json)
        return ERROR
    return code if isinstance(code, int) else 0


def _usage(error: TyperException, as_json: bool) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".")
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stdout.write(error.format_message() + "\n")
        return USAGE
    command = context.command_path if context is not None else "duramen"
    if command == "duramen" and message.startswith("No such option"):
        message += ": options stand behind the command"
    say_error("usage", f"{message} (see `{command} --help`)", {}, retryable=False, as_json=as_json)
    return USAGE
