"""The options of a connection with TLS and of a user, for every command that has `--at`.

A command's own code knows a server by host and port. What is said here on top of that, `duramens://` in the address and
the files, becomes the security of the channels that the command makes; who calls becomes their credentials.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from copy import copy
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from typer.models import CommandInfo, TyperInfo

from log_tier.access.client.client_target import parse_target
from log_tier.model.errors import InvalidRequest
from log_tier.rpc.credentials import CallCredentials, proving
from log_tier.rpc.security import secured

__all__ = ["with_tls_options"]

C = TypeVar("C", CommandInfo, TyperInfo)

_OPTIONS: Final = {
    "ca": Annotated[
        Path | None,
        typer.Option(
            "--ca", envvar="DURAMEN_CA", metavar="FILE", help="With duramens://: the CA of the servers' certificates."
        ),
    ],
    "certificate": Annotated[
        Path | None,
        typer.Option(
            "--certificate", envvar="DURAMEN_CERTIFICATE", metavar="FILE", help="A certificate of your own to show."
        ),
    ],
    "key": Annotated[
        Path | None,
        typer.Option("--certificate-key", envvar="DURAMEN_CERTIFICATE_KEY", metavar="FILE", help="Its key."),
    ],
}


def with_tls_options(app: typer.Typer) -> typer.Typer:
    """`app`, where the commands that have `--at` have these too, those of the groups in it as well.

    It is a new one. The commands are functions of modules, which outlive an app that is made twice or half.
    """
    connected = copy(app)
    connected.registered_groups = [_group(each) for each in app.registered_groups]
    connected.registered_commands = [_command(each) for each in app.registered_commands]
    if app.registered_callback is not None:
        connected.registered_callback = _command(app.registered_callback)
    return connected


def _group(group: TyperInfo) -> TyperInfo:
    connected = copy(group)
    if group.typer_instance is not None:
        connected.typer_instance = with_tls_options(group.typer_instance)
    return connected


def _command(command: C) -> C:
    connected, callback = copy(command), command.callback
    if callback is not None and "at" in inspect.signature(callback).parameters:
        connected.callback = _with_options(callback)
    return connected


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def connected(
        *,
        at: str,
        tls_ca: Path | None,
        tls_certificate: Path | None,
        tls_key: Path | None,
        tls_context: typer.Context,
        **own: Any,
    ) -> Any:
        if tls_context.invoked_subcommand is not None:  # a group that is also a command
            return None
        servers, secure, user = parse_target(at)
        if len(servers) > 1:
            raise InvalidRequest(f"--at takes one server, not {', '.join(servers)}")
        if not secure:  # the files may be those of the environment, for other servers
            with proving(_credentials(tls_context, user)):
                return command(at=servers[0], **own)
        from duramen.certificates.channel_files import channel_files

        with secured(channel_files(tls_ca, tls_certificate, tls_key)), proving(_credentials(tls_context, user)):
            return command(at=servers[0], **own)

    signature = inspect.signature(command, eval_str=True)
    added = [
        inspect.Parameter(f"tls_{name}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _OPTIONS.items()
    ]
    added.append(
        inspect.Parameter("tls_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)  # typer gives it
    )
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()]
    connected.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    connected.__annotations__ = {each.name: each.annotation for each in (*own, *added)}
    return connected


def _credentials(context: typer.Context, user: str) -> CallCredentials | None:
    """Who calls: the token file that stands before the command, else what the environment says; for a user that only
    the address or DURAMEN_USER names, the password that somebody types.
    """
    from log_tier.access.client.client_credentials import SECRET_VARIABLES, client_credentials

    token_file = context.find_root().obj
    named = user or os.environ.get("DURAMEN_USER", "")
    is_given = token_file is not None or any(os.environ.get(each) for each in SECRET_VARIABLES)
    if named and not is_given and sys.stdin.isatty():
        return client_credentials(user=named, password=typer.prompt(f"Password of {named}", hide_input=True, err=True))
    return client_credentials(token_file=token_file, address_user=user)
