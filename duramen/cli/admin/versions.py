"""`duramen admin versions | stage | swap | rollback | discard | clear`, and the same as `duramen bulk`."""

from __future__ import annotations

from typing import Annotated

import typer

from duramen.cli.admin.answer import say_answer
from duramen.cli.admin.change import DryRun, Wait, WaitTimeout, Yes, carry_out, confirm
from duramen.cli.admin.connection import Table, ask
from duramen.cli.admin.format import moment
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.terminal.output import say, say_table

__all__ = ["clear", "discard", "rollback", "stage", "swap", "versions"]

_One = Annotated[str, typer.Argument(metavar="TABLE", help="The table.")]
_Version = Annotated[int | None, typer.Option("--version", metavar="N", help="Which one.", min=1)]


def versions(table: Table = "", at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Show the versions of tables: which one is read, which are staged or kept, and where they are lacking.

    \b
      duramen admin versions flights
    """
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
            moment(each.made_ms) if each.made_ms else "-",
            each.url or "the log",
        )
        for each in found
    ]
    say_table(columns, rows, right=["version"])


def stage(
    table: _One,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the version was built; every node fetches from it.")],
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Have every replica fetch a version, verify it, and keep it level with the log beside the live one.

    Nothing is read from it yet. A replica that cannot verify it, or has no room, fails the job: the version is then not
    swapped in. Give up with `duramen admin abort JOB`.

    \b
      duramen admin stage flights s3://bulk/flights/2026-11-21
    """
    from router.admin.requests import Stage

    return carry_out(Stage(table, url), at=at, json=json, dry_run=dry_run, wait=wait, timeout=timeout)


def swap(
    table: _One,
    version: _Version = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", help="Older versions that stay for a rollback [1].", min=0)
    ] = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Let a staged version be read, from one offset of each partition's log on: a barrier in the log names it.

    Reads go on, tokens and watches too. What was written since the version's base is in it.

    \b
      duramen admin swap flights
      duramen admin swap flights --version 3 --keep 2
    """
    from router.admin.requests import Swap

    change = Swap(table, version, keep)
    return carry_out(change, at=at, json=json, dry_run=dry_run, wait=wait, timeout=timeout)


def rollback(
    table: _One,
    version: _Version = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Let a version be read again that was live before, with everything that was written meanwhile.

    \b
      duramen admin rollback flights
    """
    from router.admin.requests import Rollback

    return carry_out(Rollback(table, version), at=at, json=json, dry_run=dry_run, wait=wait, timeout=timeout)


def discard(
    table: _One,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="Which one.", min=1)],
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Remove a version that is not live from every node. What was built stays where it was built.

    \b
      duramen admin discard flights 1 --yes
    """
    from router.admin.requests import Discard

    return carry_out(
        Discard(table, version),
        at=at,
        json=json,
        dry_run=dry_run,
        wait=wait,
        timeout=timeout,
        yes=yes,
        destroys="it cannot be rolled back to any more",
    )


def clear(
    table: _One,
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", help="Older versions that stay for a rollback.", min=0)
    ] = 1,
    yes: Yes = False,
    dry_run: DryRun = False,
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
    from log_tier.catalog.cluster_map import EMPTY
    from router.admin.requests import Stage, Swap

    if not (keep or yes or dry_run):
        confirm(f"clear table {table}: with --keep 0 its content cannot be brought back", json=json)
    code = carry_out(Stage(table, EMPTY), at=at, json=json, dry_run=dry_run, wait=True, timeout=timeout)
    if code or dry_run:
        return code
    return carry_out(Swap(table, None, keep), at=at, json=json, dry_run=False, wait=True, timeout=timeout)
