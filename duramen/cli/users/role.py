"""`duramen role add | remove | list | assign | unassign`."""

from __future__ import annotations

from typing import Annotated

import typer

from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout

__all__ = ["app"]

app = typer.Typer(help="Roles: grants by a name, for several users.", no_args_is_help=True, rich_markup_mode=None)

_Role = Annotated[str, typer.Argument(metavar="ROLE", help="The role's name.")]
_User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]


@app.command()
def add(
    role: _Role,
    grant: Annotated[
        list[str] | None,
        typer.Option("--grant", metavar="GRANT", help="What it allows: 'read,write orders*'; may be repeated."),
    ] = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Add a role. `duramen grant` gives it more grants, as it does to users.

    \b
      duramen role add clerks --grant 'read,write orders*' --grant 'read ships'
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_changed

    version = ask_users(at, timeout, lambda users: users.add_role(role, grant or []))
    say_changed(f"added role {role}", {"role": role, "grants": grant or []}, version, json)


@app.command()
def remove(role: _Role, at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Remove a role that no user has.

    \b
      duramen role remove clerks
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_changed

    version = ask_users(at, timeout, lambda users: users.remove_role(role))
    say_changed(f"removed role {role}", {"role": role, "removed": True}, version, json)


@app.command("list")
def list_roles(at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """List the roles, their grants and who has them.

    \b
      duramen role list
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_roles

    say_roles(ask_users(at, timeout, lambda users: users.users()), json)


@app.command()
def assign(user: _User, role: _Role, at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Give a user a role.

    \b
      duramen role assign alice clerks
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_changed

    version = ask_users(at, timeout, lambda users: users.assign_role(user, role))
    say_changed(f"user {user} has the role {role}", {"user": user, "role": role, "assigned": True}, version, json)


@app.command()
def unassign(user: _User, role: _Role, at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Take a role from a user.

    \b
      duramen role unassign alice clerks
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_changed

    version = ask_users(at, timeout, lambda users: users.unassign_role(user, role))
    say_changed(f"user {user} has no role {role}", {"user": user, "role": role, "assigned": False}, version, json)
