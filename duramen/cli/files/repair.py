"""`duramen log repair`: what is damaged in a data folder, put right from a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from duramen.cli.admin.arguments import Yes, parse_partition
from duramen.cli.terminal.exits import ERROR, OK
from duramen.cli.terminal.options import Json
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.text import counted
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import OffsetRange, parse_range

__all__ = ["repair"]


def repair(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A data folder: of `up`, of a log, or of a node.")],
    copy: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="COPY",
            help="A copy of the folder: a backup, or a snapshot of its disk. It is only read.",
        ),
    ] = None,
    give_up: Annotated[
        list[str] | None,
        typer.Option(
            "--give-up",
            metavar="TOPIC/PARTITION:FIRST-LAST",
            help="Acknowledged offsets to go on without, where nothing has them. May be repeated.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Repair the files of a data folder that nobody has open. `duramen log verify` names what is damaged.

    Damaged or missing batches are taken from the copy, byte for byte, if it is a copy of the same log with the same
    history; it may be older. Small files come from the copy too, or are made anew. A damaged index is moved away: the
    node folds it again. Only damaged files are written. What they held before stays in a folder that the command names.

    What the copy lacks is refused, with the offsets by number, and that partition stays as it is. --give-up names such
    offsets: the log goes on without them, and never uses them again. Indexes and snapshots that hold their records are
    discarded, so that all replicas agree. The exit code is 1 if something is refused.

    \b
      duramen log repair duramen-data --from /backup/duramen-data --dry-run
      duramen log repair duramen-data --from /backup/duramen-data
      duramen log repair duramen-data --from /backup/duramen-data --give-up flights/0:18-19
    """
    from duramen.server.wiring.folder_repair import FolderRepair

    with FolderRepair(data, copy, _ranges(give_up or [])) as folder:
        plan = folder.plan()
        _say(plan, json)
        if dry_run:
            _say_end(plan, [], json, done=False)
            return ERROR if plan.refusals else OK
        if plan.given_up and not yes:
            from duramen.cli.admin.change import confirm

            confirm(f"repair of {data}: acknowledged writes are given up", json=json)
        old = folder.carry_out()
        _say_end(plan, old, json, done=True)
    return ERROR if plan.refusals else OK


def _ranges(texts: list[str]) -> dict[tuple[str, int], list[OffsetRange]]:
    """What is given up, by topic and partition. Raises `InvalidRequest`."""
    found: dict[tuple[str, int], list[OffsetRange]] = {}
    for text in texts:
        place, _, offsets = text.rpartition(":")
        try:
            given_up = parse_range(offsets)
        except ValueError as error:
            raise InvalidRequest(f"--give-up {text}: {error}; like flights/0:18-19") from error
        found.setdefault(parse_partition(place), []).append(given_up)
    return found


def _say(plan: Any, json: bool) -> None:
    """Say a `RepairPlan`, whose module a command imports only when it runs."""
    for step in plan.steps:
        if json:
            offsets = [[first, last] for first, last in step.offsets]
            fields = {"kind": step.kind, "file": str(step.file), "partition": step.partition, "offsets": offsets}
            say_json({**fields, "message": step.what})
        else:
            say(f"{step.kind.replace('_', ' '):<9} {step.what}")
    for note in plan.notes:
        if json:
            say_json({"kind": "note", "message": note})
        else:
            say(f"note      {note}")
    for refusal in plan.refusals:
        give_up = [f"{refusal.partition}:{each.text}" for each in refusal.offsets]
        if json:
            offsets = [[first, last] for first, last in refusal.offsets]
            fields = {"kind": "refused", "partition": refusal.partition, "offsets": offsets, "give_up": give_up}
            say_json({**fields, "message": refusal.why})
        else:
            say(f"REFUSED   {refusal.partition}: {refusal.why}")
            if give_up:
                say(f"          to go on without them: {' '.join(f'--give-up {each}' for each in give_up)}")


def _say_end(plan: Any, old: list[Path], json: bool, *, done: bool) -> None:
    if json:
        counts = {"steps": len(plan.steps), "refused": len(plan.refusals), "done": done}
        say_json({"kind": "summary", **counts, "old_files": [str(each) for each in old]})
        return
    refused = f", {counted(len(plan.refusals), 'refusal')}" if plan.refusals else ""
    if not plan.steps:
        say(f"nothing is repaired{refused}" if refused else "nothing has to be repaired")
    elif not done:
        say(f"{counted(len(plan.steps), 'step')}{refused} (not begun: a dry run)")
    else:
        say(f"repaired: {counted(len(plan.steps), 'step')}{refused}")
        for each in old:
            say(f"the old files are in {each}: remove it when you need them no more")
