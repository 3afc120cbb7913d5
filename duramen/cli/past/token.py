"""`duramen token`: a token of everything that is in a table."""

from __future__ import annotations

from typing import Annotated

import typer

from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.terminal.output import say, say_json

__all__ = ["token"]


def token(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")],
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Print a token of everything that is in the table now, in all its partitions.

    A read with --after that token sees everything that was written before; a watch with it shows what is written from
    then on. Where the table keeps a history, --at-token reads the whole table as it is now, and `duramen diff` compares
    with it. The token of one write (`put --token`) names its key's partition alone.

    \b
      TOKEN=$(duramen token prices)
      duramen scan prices --at-token "$TOKEN"
      duramen diff prices "$TOKEN"                  # what has changed since
      duramen watch prices --after "$TOKEN"
    """
    from duramen.cli.terminal.connection import connected

    with connected(at, timeout) as database:
        text = database.table(table).end_token()
    if json:
        say_json({"table": table, "token": text})
    else:
        say(text)
