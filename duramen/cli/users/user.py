"""`duramen user add | remove | list | password | token`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.users.lifetime import parse_lifetime
from log_tier.model.errors import InvalidRequest
from log_tier.privacy.secret_files import check_new_secret_file

__all__ = ["app"]

app = typer.Typer(help="Users, their passwords and tokens.", no_args_is_help=True, rich_markup_mode=None)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
_TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="A new file for the token, which only you can read."),
]
_Ttl = Annotated[
    str | None, typer.Option("--ttl", metavar="TIME", help="It expires after so long: 90s, 15m, 12h, 30d, 8w.")
]
_PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", metavar="FILE", help="A file with the password, which only you can read."),
]


@app.command()
def add(
    name: _Name,
    token_file: _TokenFile = None,
    ttl: _Ttl = None,
    password: Annotated[
        bool, typer.Option("--password", help="Ask for a password; without a terminal read it from standard input.")
    ] = False,
    password_file: _PasswordFile = None,
    grant: Annotated[
        list[str] | None,
        typer.Option("--grant", metavar="GRANT", help="What the user may do: 'read,write orders*'; may be repeated."),
    ] = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Add a user. A token or a password proves the user; both may come later.

    The first user of a cluster has 'admin *', and from then on nobody passes without proof. `duramen up --first-user`
    makes that one before a server answers anybody.

    \b
      duramen user add alice --token-file alice.token
      duramen user add bob --password --grant 'read orders*'
      duramen user add loader --token-file loader.token --ttl 30d --grant 'read,write orders --key eu:'
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.passwords import new_password
    from duramen.cli.users.rendering import keep_token, say_user_added

    if ttl is not None and token_file is None:
        raise InvalidRequest("--ttl is how long a token lives: give --token-file too")
    if token_file is not None:
        check_new_secret_file(token_file)
    ttl_ms = parse_lifetime(ttl)
    has_password = password or password_file is not None
    secret = new_password(name, password_file) if has_password else ""
    grants, with_token = grant or [], token_file is not None
    made = ask_users(
        at,
        timeout,
        lambda users: users.add_user(name, password=secret, grants=grants, with_token=with_token, ttl_ms=ttl_ms),
    )
    if token_file is not None:
        keep_token(made.token, made.token_id, token_file)
    say_user_added(name, made, token_file, password=has_password, json=json)


@app.command()
def remove(name: _Name, at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Remove a user with its tokens and grants. What it has open ends at once.

    \b
      duramen user remove alice
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_changed

    version = ask_users(at, timeout, lambda users: users.remove_user(name))
    say_changed(f"removed user {name}", {"user": name, "removed": True}, version, json)


@app.command("list")
def list_users(at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """List the users: what proves them, their grants and roles. No secret and no hash is shown.

    \b
      duramen user list
      duramen user list --json | jq -r .user
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_users

    say_users(ask_users(at, timeout, lambda users: users.users()), json)


@app.command()
def password(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The user. Without it: you.")] = None,
    password_file: _PasswordFile = None,
    none: Annotated[bool, typer.Option("--none", help="No password proves the user from now on.")] = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Give a user another password. It is asked for twice on a terminal, else read as a line of standard input.

    What the old one proved ends at once. Another user's needs 'admin *'.

    \b
      duramen user password
      duramen user password alice < new-password
      duramen user password alice --none
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.passwords import new_password
    from duramen.cli.users.rendering import say_changed

    if none and password_file is not None:
        raise InvalidRequest("--none takes the password away: leave out --password-file")
    secret = "" if none else new_password(name or "", password_file)
    version = ask_users(at, timeout, lambda users: users.set_password(name or "", secret))
    whose = f"user {name}" if name else "you"
    say_changed(f"{whose}: {'no' if none else 'another'} password", {"user": name, "password": not none}, version, json)


@app.command()
def token(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The user. Without it: you.")] = None,
    token_file: _TokenFile = None,
    ttl: _Ttl = None,
    revoke: Annotated[str | None, typer.Option("--revoke", metavar="ID", help="Revoke this token instead.")] = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Make another token of a user, or revoke one: `duramen user list` shows their ids.

    Without --token-file the token is printed, alone on its line. Another user's needs 'admin *'.

    \b
      duramen user token alice --token-file alice-2.token --ttl 30d
      duramen user token alice --revoke 0f8c2b6a9d1e
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import keep_token, say_changed, say_token

    user = name or ""
    if revoke is not None:
        if ttl is not None or token_file is not None:
            raise InvalidRequest("--revoke ends a token: leave out --ttl and --token-file")
        version = ask_users(at, timeout, lambda users: users.revoke_token(user, revoke))
        say_changed(f"revoked token {revoke}", {"user": name, "token_id": revoke, "revoked": True}, version, json)
        return
    if token_file is not None:
        check_new_secret_file(token_file)
    ttl_ms = parse_lifetime(ttl)
    made = ask_users(at, timeout, lambda users: users.add_token(user, ttl_ms=ttl_ms))
    if token_file is not None:
        keep_token(made.token, made.token_id, token_file)
    say_token(user, made, token_file, json)
