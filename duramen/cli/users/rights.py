"""`duramen grant`, `duramen revoke`, `duramen whoami`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout

__all__ = ["grant", "revoke", "whoami"]

_Who = Annotated[str, typer.Argument(metavar="WHO", help="A user or a role.")]
_Rights = Annotated[str, typer.Argument(metavar="RIGHTS", help="Of read, write and admin, with commas between.")]
_Table = Annotated[str, typer.Argument(metavar="TABLE", help="A table's name, or a prefix of names and *.")]
_Key = Annotated[
    str | None, typer.Option("--key", metavar="PREFIX", help="Only keys that begin so; base64:… for bytes.")
]


def grant(
    who: _Who,
    rights: _Rights,
    table: _Table,
    key: _Key = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Grant rights on tables to a user or a role. No right implies another one.

    read: get, scan, watch. write: put, delete; with a condition, and update, read as well, since the answer tells what
    was there. admin: create, change, drop; on * also users, nodes and jobs.

    \b
      duramen grant alice read,write orders
      duramen grant clerks read 'orders*' --key eu:
      duramen grant bob admin '*'
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_changed

    text = grant_text(rights, table, key)
    version = ask_users(at, timeout, lambda users: users.grant(who, text))
    say_changed(f"{who} has the grant '{text}'", {"to": who, "grant": text, "granted": True}, version, json)


def revoke(
    who: _Who,
    rights: _Rights,
    table: _Table,
    key: _Key = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Revoke a grant, written as it was granted. What is open by it alone ends at once.

    \b
      duramen revoke alice read,write orders
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_changed

    text = grant_text(rights, table, key)
    version = ask_users(at, timeout, lambda users: users.revoke(who, text))
    say_changed(f"{who} has no grant '{text}'", {"to": who, "grant": text, "granted": False}, version, json)


def whoami(at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Show who calls, by what, and what they may do.

    \b
      duramen --token-file alice.token whoami
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_who

    say_who(ask_users(at, timeout, lambda users: users.who_am_i()), json)


def grant_text(rights: str, table: str, key: str | None) -> str:
    """The text form of a grant. Raises `InvalidRequest`."""
    from log_tier.trust.grants import Grant, parse_key_prefix

    given = Grant.parse(f"{rights} {table}")
    return (given if key is None else replace(given, key=parse_key_prefix(key))).text
