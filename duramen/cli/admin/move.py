"""`duramen admin move | drain | rebalance | retire | set-replicas`."""

from __future__ import annotations

from typing import Annotated

import typer

from duramen.cli.admin.arguments import parse_partition
from duramen.cli.admin.change import DryRun, Wait, WaitTimeout, Yes, carry_out
from duramen.cli.terminal.options import AT_DEFAULT, At, Json
from log_tier.catalog.actions import Action

__all__ = ["drain", "move", "rebalance", "retire", "set_replicas"]

_Node = Annotated[str, typer.Argument(metavar="NODE", help="The node's id.")]


def move(
    where: Annotated[str, typer.Argument(metavar="TABLE/PARTITION", help="Which partition.")],
    source: Annotated[str, typer.Argument(metavar="FROM", help="The node that holds a replica.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The node that gets it.")],
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Move one replica from one node to another.

    The old one is read until the new one is level with the log. Where the source is lost, the copy comes from a
    snapshot, another replica, or the log.

    \b
      duramen admin move flights/3 n1 n4
      duramen admin move flights/3 n1 n4 --dry-run
    """
    from router.admin.requests import Move

    table, partition = parse_partition(where)
    change = Move(table, partition, source, target)
    return carry_out(change, at=at, json=json, dry_run=dry_run, wait=wait, timeout=timeout)


def drain(
    node: _Node,
    undo: Annotated[
        bool, typer.Option("--undo", help="Let it take replicas again; `rebalance` brings it some.")
    ] = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Move everything away from a node, and give it nothing new.

    For a node that shall be switched off for long. One that is away for a few minutes needs no drain: it comes back
    with what it has. Aborting the job undoes what is not done, and lets the node take replicas again.

    \b
      duramen admin drain n2 --dry-run      # what would move, how many bytes, how long
      duramen admin drain n2
      duramen admin drain n2 --undo         # it is back in service
    """
    from router.admin.requests import Drain

    return carry_out(Drain(node, undo), at=at, json=json, dry_run=dry_run, wait=wait, timeout=timeout)


def rebalance(
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Let the nodes hold equally many replicas, with as few moves as can be.

    For a node that is new, or back. Lost nodes are left as they are.

    \b
      duramen admin rebalance --dry-run
      duramen admin rebalance
    """
    from router.admin.requests import Rebalance

    return carry_out(Rebalance(), at=at, json=json, dry_run=dry_run, wait=wait, timeout=timeout)


def retire(
    node: _Node,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Drain a node, and forget it when it is empty.

    For a node that will not come back: its machine is gone, or its disk. It need not be there.

    \b
      duramen admin retire n2 --dry-run
      duramen admin retire n2 --yes
    """
    from router.admin.requests import Retire

    return carry_out(
        Retire(node),
        at=at,
        json=json,
        dry_run=dry_run,
        wait=wait,
        timeout=timeout,
        yes=yes,
        destroys="the node is forgotten, and what it holds is deleted",
    )


def set_replicas(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")],
    replicas: Annotated[int, typer.Argument(metavar="N", help="How many each partition shall have.", min=1)],
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    timeout: WaitTimeout = None,
    at: At = AT_DEFAULT,
    json: Json = False,
) -> int:
    """Change how many nodes hold each partition of a table.

    New ones go to the nodes that hold least. Of those that are too many, the ones on lost nodes go first, then those
    that are not ready, then those on full nodes. Fewer replicas are asked for (or --yes).

    \b
      duramen admin set-replicas flights 3
      duramen admin set-replicas flights 1 --yes
    """
    from router.admin.requests import SetReplicas

    return carry_out(
        SetReplicas(table, replicas),
        at=at,
        json=json,
        dry_run=dry_run,
        wait=wait,
        timeout=timeout,
        yes=yes,
        destroys="replicas are deleted",
        destroys_if=[Action.REMOVE],
    )
