"""`duramen admin snapshot | trim | compact`."""

from __future__ import annotations

from typing import Annotated

import typer

from duramen.cli.admin.arguments import parse_place
from duramen.cli.admin.change import DryRun, Wait, WaitTimeout, Yes, carry_out
from duramen.cli.admin.connection import Table
from duramen.cli.terminal.options import AT_DEFAULT, At, Json
from log_tier.catalog.actions import Action

__all__ = ["compact", "snapshot", "trim"]

_Where = Annotated[str, typer.Argument(metavar="TABLE[/PARTITION]", help="A table, or one of its partitions.")]


def snapshot(
    table: Table = "",
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Take a snapshot of each partition, at a node that has little to do.

    A snapshot is copied, stored, read back and compared before it counts. It is what a lost replica is restored from,
    and what the log may be trimmed below.

    \b
      duramen admin snapshot
      duramen admin snapshot flights
    """
    from router.admin.requests import TakeSnapshots

    return carry_out(TakeSnapshots(table), at=at, json=json, dry_run=dry_run, wait=wait, timeout=timeout)


def trim(
    where: _Where,
    before: Annotated[
        int | None, typer.Option("--before", metavar="OFFSET", help="The first offset that stays.", min=0)
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Let the log drop what its newest verified snapshot covers. It cannot be undone.

    Watchers that are further behind get an error with the earliest offset that is left; a point in time before it can
    no longer be restored. The log drops whole segments, so some older records stay. Without a snapshot it is refused.

    \b
      duramen admin snapshot flights && duramen admin trim flights --yes
      duramen admin trim flights/3 --before 100000 --dry-run
    """
    from router.admin.requests import Trim

    table, partition = parse_place(where)
    return carry_out(
        Trim(table, partition, before),
        at=at,
        json=json,
        dry_run=dry_run,
        wait=wait,
        timeout=timeout,
        yes=yes,
        destroys="the log's older records are deleted for ever",
        destroys_if=[Action.TRIM],
    )


def compact(
    where: _Where,
    below: Annotated[
        int | None, typer.Option("--below", metavar="OFFSET", help="Only what lies below that offset.", min=0)
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Let the log drop records that later writes of their keys made void. It cannot be undone.

    A replica that reads what is left reaches the same state. Only what a verified snapshot covers is compacted; without
    one it is refused.

    \b
      duramen admin compact flights --yes
      duramen admin compact flights/3 --below 100000 --dry-run
    """
    from router.admin.requests import Compact

    table, partition = parse_place(where)
    return carry_out(
        Compact(table, partition, below),
        at=at,
        json=json,
        dry_run=dry_run,
        wait=wait,
        timeout=timeout,
        yes=yes,
        destroys="records that were overwritten are deleted for ever",
        destroys_if=[Action.COMPACT],
    )
