"""`duramen quota set | list | remove`."""

from __future__ import annotations

from typing import Annotated

import typer

from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.users.sizes import parse_size
from log_tier.model.errors import InvalidRequest

__all__ = ["app"]

app = typer.Typer(
    help="Quotas: what one server gives a user, or all users of a table.", no_args_is_help=True, rich_markup_mode=None
)

_User = Annotated[str | None, typer.Option("--user", metavar="USER", help="The user whose quota it is.")]
_Table = Annotated[
    str | None, typer.Option("--table", metavar="TABLE", help="Or the table's name, or a prefix of names and *.")
]


@app.command("set")
def set_quota(
    user: _User = None,
    table: _Table = None,
    calls: Annotated[int, typer.Option("--calls", metavar="N", min=0, help="Calls or commands each second.")] = 0,
    bytes_in: Annotated[
        str, typer.Option("--bytes-in", metavar="SIZE", help="Bytes of requests each second: 500kB, 10MB, 1GiB.")
    ] = "0",
    bytes_out: Annotated[
        str, typer.Option("--bytes-out", metavar="SIZE", help="Bytes of replies each second: 500kB, 10MB, 1GiB.")
    ] = "0",
    scans: Annotated[int, typer.Option("--scans", metavar="N", min=0, help="Scans that are open at once.")] = 0,
    watches: Annotated[int, typer.Option("--watches", metavar="N", min=0, help="Watches that are open at once.")] = 0,
    connections: Annotated[
        int,
        typer.Option(
            "--connections",
            metavar="N",
            min=0,
            help="A user's connections that are open at once; one of gRPC counts for 30 s after its last call.",
        ),
    ] = 0,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Set the quota of a user or of tables, in place of the one that it had: what is left out has no bound.

    Each server of a cluster counts for itself. What is over is refused with the time to wait, and takes nothing. A
    prefix of tables is one quota that they share; a table's own comes before it. gRPC and the Redis protocol take of
    the same quota.

    \b
      duramen quota set --user alice --calls 1000 --bytes-in 10MB
      duramen quota set --table 'logs*' --bytes-in 50MB --watches 100
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_changed
    from router.proto import users_pb2 as pb

    subject = _subject(user, table)
    quota = pb.QuotaBounds(
        calls_s=calls,
        bytes_in_s=parse_size(bytes_in),
        bytes_out_s=parse_size(bytes_out),
        scans=scans,
        watches=watches,
        connections=connections,
    )
    bounds = {field.name: value for field, value in quota.ListFields()}
    if not bounds:
        raise InvalidRequest("name a bound, such as --calls 1000; `duramen quota remove` takes all of them away")
    version = ask_users(at, timeout, lambda users: users.set_quota(user=user, table=table, quota=quota))
    text = f"{subject} has a quota: {', '.join(f'{name} {value}' for name, value in bounds.items())}"
    say_changed(text, {"user": user, "table": table, **bounds}, version, json)


@app.command("list")
def list_quotas(at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """List the quotas of users and tables.

    \b
      duramen quota list
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_quotas

    say_quotas(ask_users(at, timeout, lambda users: users.quotas()), json)


@app.command()
def remove(
    user: _User = None, table: _Table = None, at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False
) -> None:
    """Take the quota of a user or of tables away. Where there is none, nothing changes.

    \b
      duramen quota remove --user alice
    """
    from duramen.cli.users.connection import ask_users
    from duramen.cli.users.rendering import say_changed
    from router.proto import users_pb2 as pb

    subject = _subject(user, table)
    version = ask_users(at, timeout, lambda users: users.set_quota(user=user, table=table, quota=pb.QuotaBounds()))
    say_changed(f"{subject} has no quota", {"user": user, "table": table, "removed": True}, version, json)


def _subject(user: str | None, table: str | None) -> str:
    """Whose quota, in words. Raises `InvalidRequest` unless one of the two is named."""
    if (user is None) == (table is None):
        raise InvalidRequest("whose quota? Give --user NAME or --table NAME, one of them")
    return f"user {user}" if user is not None else f"table {table}"
