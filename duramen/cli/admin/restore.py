"""`duramen admin restore`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from duramen.cli.admin.arguments import DryRun, Wait, WaitTimeout
from duramen.cli.terminal.options import AT_DEFAULT, At, Json
from log_tier.model.errors import InvalidRequest
from router.admin.verbs import AdminChange, RestoreNode, RestoreTable

__all__ = ["restore"]


class Source(StrEnum):
    """The source of a replica's content."""

    AUTO = "auto"
    SNAPSHOT = "snapshot"
    PEER = "peer"
    LOG = "log"


def restore(
    name: Annotated[str, typer.Argument(metavar="NODE|TABLE", help="A node; or, with --as, a table.")],
    source: Annotated[
        Source, typer.Option("--source", help="A node's replicas: from here; auto takes the quickest that is good.")
    ] = Source.AUTO,
    target: Annotated[str | None, typer.Option("--as", metavar="NEW_TABLE", help="The table that is made.")] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TOKEN|TIME", help="The point in time: a write's token, or a time of the log."),
    ] = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Build a node's replicas anew; or make a new table of what a table held once.

    A node: each replica is read until its successor is level with the log. For indexes that are not trusted.

    A table: the new one (--as) is filled with what the other one held at --until, while that goes on being used. A
    time is in this machine's zone unless it names one, and is compared with the log's own clock. A token restores each
    partition that it names at exactly its offset, the others as they were at that time.

    \b
      duramen admin restore n2
      duramen admin restore n2 --source snapshot
      duramen admin restore flights --as flights_before --until 2026-05-01T08:30
      duramen admin restore flights --as flights_then --until "$TOKEN" --dry-run
    """
    from duramen.cli.admin.change import carry_out

    change = _change(name, source, target, until)
    return carry_out(change, at=at, json=json, dry_run=dry_run, wait=wait, timeout=timeout)


def _change(name: str, source: Source, target: str | None, until: str | None) -> AdminChange:
    if target is None and until is None:
        return RestoreNode(name, source.value)
    if target is None or until is None:
        raise InvalidRequest("a table is restored with both --as NEW_TABLE and --until TOKEN|TIME")
    if source is not Source.AUTO:
        raise InvalidRequest("--source is for a node; a table is restored from whatever holds that offset")
    if until.startswith("d1."):
        return RestoreTable(name, target, token=until)
    return RestoreTable(name, target, time_ms=_time_ms(until))


def _time_ms(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidRequest(
            f"--until takes a token (d1.…) or a time like 2026-05-01T08:30 or 2026-05-01T08:30Z, not {text!r}: {error}"
        ) from error
