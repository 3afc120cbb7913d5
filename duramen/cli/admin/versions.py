"""`duramen admin versions | clear`."""

from __future__ import annotations

from typing import Annotated

import typer

from duramen.cli.admin.arguments import DryRun, Table, Wait, WaitTimeout, Yes
from duramen.cli.admin.figures import local_time
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.terminal.output import say, say_table

__all__ = ["clear", "versions"]

_One = Annotated[str, typer.Argument(metavar="TABLE", help="The table.")]


def versions(table: Table = "", at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Show the versions of tables: which one is read, which are staged or kept, and where they are lacking.

    \b
      duramen admin versions flights
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.connection import ask

    found = ask(at, timeout, lambda admin: admin.versions(table))
    if json:
        for each in found:
            say_answer(each)
        return
    if not found:
        say("there are no tables")
        return
    columns = ["table", "version", "state", "level at", "made", "from"]
    rows = [
        (
            each.table,
            each.version,
            each.state,
            f"{each.level} of {each.replicas}",
            local_time(each.made_ms) if each.made_ms else "-",
            each.url or "the log",
        )
        for each in found
    ]
    say_table(columns, rows, right=["version"])


def clear(
    table: _One,
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", help="Older versions that stay for a rollback.", min=0)
    ] = 1,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Let a table have no keys: an empty version of it is staged and swapped in.

    It costs the same whatever the table holds; what is written meanwhile is kept. With an older version kept,
    `duramen admin rollback` brings back what was cleared, with all that was written since. Its changes stay in the log
    and in the feed.

    \b
      duramen admin clear page_views
      duramen admin clear page_views --keep 0 --yes
    """
    from duramen.cli.admin.change import carry_out, confirm
    from router.admin.verbs import Clear

    if not (keep or yes or dry_run):
        confirm(f"clear table {table}: with --keep 0 its content cannot be brought back", json=json)
    return carry_out(Clear(table, keep), at=at, json=json, dry_run=dry_run, wait=wait, timeout=timeout)
