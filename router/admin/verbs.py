"""The verbs of administration: what an operator may have done. Each is declared here, once.

A verb is a class. Its fields are the request, its docstring is the help of its command, and `@verb`
(`router.admin.verb`) says the rest. From that follow

    the command line      `duramen.cli.admin.verb_command` makes the command, and docs/CLI.md is made from that
    the message           `router.admin.messages` converts to and from the member of `AdminStartRequest.change`
    the plan              `router.admin.find_planner` finds the planner, whose keyword arguments are the fields
    the question          whether the command asks before it begins (`destroys`)

`verb_of` and `VERBS` find what was declared. Nothing here imports a planner or a message: the command line reads this
at every start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

from log_tier.catalog.actions import Action
from log_tier.model.identifiers import Partition
from router.admin.verb import Argument, OfPartitionArgument, Option, PartitionArgument, Verb, declared, verb

__all__ = [
    "VERBS",
    "AdminChange",
    "Automate",
    "Clear",
    "Compact",
    "Discard",
    "Drain",
    "Move",
    "Rebalance",
    "RestoreNode",
    "RestoreTable",
    "Retire",
    "Rollback",
    "SetReplicas",
    "Stage",
    "Swap",
    "TakeSnapshots",
    "Trim",
    "verb_of",
]

# --- replicas and nodes

_Node = Annotated[str, Argument("NODE", "The node's id.")]


@verb(
    "move",
    planner="move:plan_move",
    examples=("move flights/3 n1 n4", "move flights/3 n1 n4 --dry-run"),
)
class Move(NamedTuple):
    """Move one replica from one node to another.

    The old one is read until the new one is level with the log. Where the source is lost, the copy comes from a
    snapshot, another replica, or the log.
    """

    table: Annotated[str, PartitionArgument("TABLE/PARTITION", "Which partition.")]
    partition: Annotated[Partition, OfPartitionArgument]
    source: Annotated[str, Argument("FROM", "The node that holds a replica.")]
    target: Annotated[str, Argument("TO", "The node that gets it.")]


@verb(
    "drain",
    planner="move:plan_drain",
    examples=(
        "drain n2 --dry-run      # what would move, how many bytes, how long",
        "drain n2",
        "drain n2 --undo         # it is back in service",
    ),
)
class Drain(NamedTuple):
    """Move everything away from a node, and give it nothing new.

    For a node that shall be switched off for long. One that is away for a few minutes needs no drain: it comes back
    with what it has. Aborting the job undoes what is not done, and lets the node take replicas again.
    """

    node: _Node
    undo: Annotated[bool, Option("--undo", "Let it take replicas again; `rebalance` brings it some.")] = False


@verb("rebalance", planner="rebalance:plan_rebalance", examples=("rebalance --dry-run", "rebalance --auto"))
class Rebalance(NamedTuple):
    """Let the nodes hold equally many replicas, with as few moves as can be.

    For a node that is new, or back. Lost nodes are left as they are.

    With --auto nothing is evened out. Nodes are relieved that have less than 15 % of their disk free, replicas that
    have lagged for a minute while others are level, or twice the reads and writes of the others: at most 8 replicas go
    to nodes with room, and the plan says which node has too much, and why. Routers do the same by themselves where that
    lasts, see --relieve-after.
    """

    auto: Annotated[bool, Option("--auto", "Only relieve nodes that are full, slow or hot.")] = False


@verb(
    "retire",
    planner="move:plan_retire",
    examples=("retire n2 --dry-run", "retire n2 --yes"),
    destroys="the node is forgotten, and what it holds is deleted",
)
class Retire(NamedTuple):
    """Drain a node, and forget it when it is empty.

    For a node that will not come back: its machine is gone, or its disk. It need not be there.
    """

    node: _Node


@verb(
    "set_replicas",
    planner="set_replicas:plan_set_replicas",
    examples=("set-replicas flights 3", "set-replicas flights 1 --yes"),
    destroys="replicas are deleted",
    destroys_if=(Action.REMOVE,),
)
class SetReplicas(NamedTuple):
    """Change how many nodes hold each partition of a table.

    New replicas go to the nodes that hold least. Surplus replicas go from lost nodes first, then those that are not
    ready, then those on full nodes. The command asks before it removes a replica, unless it is given --yes.
    """

    table: Annotated[str, Argument("TABLE", "The table's name.")]
    replicas: Annotated[int, Argument("N", "How many each partition shall have.", least=1)]


@verb(
    "automate",
    planner="automate:plan_automate",
    examples=("automate relieve --off", "automate heal --off   # before work at many machines", "automate heal"),
)
class Automate(NamedTuple):
    """Let the routers begin jobs of a kind by themselves, or with --off no more, until it is switched on again.

    `heal` replaces the replicas of nodes that stay lost, `relieve` moves replicas away from nodes that are full, slow
    or hot; `duramen admin plan` shows what they would do. A job that is under way goes on: `duramen admin abort JOB`
    undoes it.
    """

    what: Annotated[str, Argument("heal|relieve", "The kind of job.")]
    off: Annotated[bool, Option("--off", "Operators alone begin such jobs.")] = False


# --- snapshots, and the log below them


@verb(
    "take_snapshots",
    planner="upkeep:plan_snapshot",
    command="snapshot",
    examples=("snapshot", "snapshot flights"),
)
class TakeSnapshots(NamedTuple):
    """Take a snapshot of each partition, at a node that has little to do.

    It holds at least what was acknowledged before it was asked for: a replica that is behind catches up first. A
    snapshot is copied, stored, read back and compared before it counts. It is what a lost replica is restored from, and
    what the log may be trimmed below.
    """

    table: Annotated[str, Argument("[TABLE]", "The table's name; none: all tables.")] = ""


@verb("restore_node", planner="restore:plan_restore_node", command="restore", by_hand=True)
class RestoreNode(NamedTuple):
    """Build every replica of a node anew."""

    node: str
    source: str = "auto"
    """auto, snapshot, peer, log."""


@verb("restore_table", planner="restore:plan_restore_table", command="restore", by_hand=True)
class RestoreTable(NamedTuple):
    """Make a new table of what a table held once. Exactly one of `token` and `time_ms` is given."""

    table: str
    target: str
    """The new table's name."""
    token: str = ""
    """Each partition that it names is restored at its offset; the others at the time of the newest record it names."""
    time_ms: int | None = None
    """Milliseconds since 1970, on the log's clock."""


_Where = Annotated[str, PartitionArgument("TABLE[/PARTITION]", "A table, or one of its partitions.")]


@verb(
    "trim",
    planner="upkeep:plan_trim",
    examples=("snapshot flights && duramen admin trim flights --yes", "trim flights/3 --before 100000 --dry-run"),
    destroys="the log's older records are deleted for ever",
    destroys_if=(Action.TRIM,),
    reads_log=True,
)
class Trim(NamedTuple):
    """Let the log drop what its newest verified snapshot covers. It cannot be undone.

    Watchers that are further behind get an error with the earliest offset that is left; a point in time before it can
    no longer be restored. The log drops whole segments, so some older records stay. Without a snapshot it is refused.
    """

    table: _Where
    partition: Annotated[Partition | None, OfPartitionArgument] = None
    before: Annotated[int | None, Option("--before", "The first offset that stays.", "OFFSET", least=0)] = None


@verb(
    "compact",
    planner="upkeep:plan_compact",
    examples=("compact flights --yes", "compact flights/3 --below 100000 --dry-run"),
    destroys="records that were overwritten are deleted for ever",
    destroys_if=(Action.COMPACT,),
    reads_log=True,
)
class Compact(NamedTuple):
    """Let the log drop records that later writes of their keys made void. It cannot be undone.

    A replica that reads what is left reaches the same state. Only what a verified snapshot covers is compacted; without
    one it is refused.
    """

    table: _Where
    partition: Annotated[Partition | None, OfPartitionArgument] = None
    below: Annotated[int | None, Option("--below", "Only what lies below that offset.", "OFFSET", least=0)] = None


# --- versions of a table's content

_One = Annotated[str, Argument("TABLE", "The table.")]
_Version = Annotated[int | None, Option("--version", "Which one.", "N", least=1)]


@verb("stage", planner="versions:plan_stage", examples=("stage flights s3://bulk/flights/2026-11-21",))
class Stage(NamedTuple):
    """Have every replica fetch a version, verify it, and keep it level with the log as a standby.

    Nothing is read from it yet. A replica that cannot verify it, or whose disk is full, fails the job: the version is
    then not swapped in. Give up with `duramen admin abort JOB`.
    """

    table: _One
    url: Annotated[str, Argument("URL", "Where the version was built; every node fetches from it.")]
    """`empty:` for a version with nothing in it."""


@verb(
    "swap",
    planner="versions:plan_swap",
    examples=("swap flights", "swap flights --version 3 --keep 2"),
)
class Swap(NamedTuple):
    """Let a staged version be read, from one offset of each partition's log on: a barrier in the log names it.

    Reads go on, tokens and watches too. What was written since the version's base is in it.
    """

    table: _One
    version: _Version = None
    """None: the newest one that is staged."""
    keep: Annotated[int | None, Option("--keep", "Older versions that stay for a rollback [1].", "N", least=0)] = None


@verb("rollback", planner="versions:plan_rollback", examples=("rollback flights",))
class Rollback(NamedTuple):
    """Let a version be read again that was live before, with everything that was written meanwhile."""

    table: _One
    version: _Version = None
    """None: the one that was live last."""


@verb(
    "discard",
    planner="versions:plan_discard",
    examples=("discard flights 1 --yes",),
    destroys="it cannot be rolled back to any more",
)
class Discard(NamedTuple):
    """Remove a version that is not live from every node. What was built stays where it was built.

    Refused while a restore of the table may still fetch a version that was live before: until each partition has a
    snapshot of the version that is live now. Then what was built may be removed as well.
    """

    table: _One
    version: Annotated[int, Argument("VERSION", "Which one.", least=1)]
    force: Annotated[bool, Option("--force", "Also while a restore may need the version.")] = False


@verb(
    "clear",
    planner="versions:plan_clear",
    by_hand=True,
    destroys="without a kept version its content cannot be brought back",
    reads_log=True,
)
class Clear(NamedTuple):
    """Let a table have no keys."""

    table: str
    keep: int | None = None
    """How many versions stay for a rollback; None: one."""


AdminChange = (
    Move
    | Drain
    | Rebalance
    | Retire
    | SetReplicas
    | Automate
    | TakeSnapshots
    | RestoreNode
    | RestoreTable
    | Trim
    | Compact
    | Stage
    | Swap
    | Rollback
    | Discard
    | Clear
)

VERBS: Final[Mapping[type, Verb]] = declared()
"""The verbs by their class, in the order of this file."""


def verb_of(change: AdminChange) -> Verb:
    """The declaration of a change's verb."""
    return VERBS[type(change)]
