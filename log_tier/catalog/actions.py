"""The actions that a job's tasks may be, and the kinds of jobs that the fold has a rule for. Pure.

    action            changes who   copies an   takes records
                      holds it      index       from the log
    move, add         yes           yes
    remove            yes
    snapshot, rebuild,
    copy, stage                     yes
    trim, compact                               yes
    swap, alter, index

The values are the names on the disk and on the wire; they never change. A task of the catalog may carry a name that is
not here: a newer version wrote it. The fold refuses to begin one, and an older node fails it by name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["AUTOMATIC", "CHANGES_HOLDERS", "COPIES_INDEX", "GAINS_REPLICA", "SHORTENS_LOG", "Action", "JobKind"]


class Action(StrEnum):
    """What one node does for a job."""

    MOVE = "move"
    ADD = "add"
    REMOVE = "remove"
    SNAPSHOT = "snapshot"
    REBUILD = "rebuild"
    COPY = "copy"
    TRIM = "trim"
    COMPACT = "compact"
    STAGE = "stage"
    SWAP = "swap"
    ALTER = "alter"
    INDEX = "index"


class JobKind(StrEnum):
    """The kinds of jobs that change more of the map than their tasks do. A job may have any other name for its kind."""

    DRAIN = "drain"
    UNDRAIN = "undrain"
    RETIRE = "retire"
    SET_REPLICAS = "set-replicas"
    STAGE = "stage"
    SWAP = "swap"
    ROLLBACK = "rollback"
    DISCARD = "discard"
    CLEAR = "clear"
    ALTER = "alter"
    CREATE_INDEX = "create-index"
    DROP_INDEX = "drop-index"
    HEAL = "heal"
    RELIEVE = "relieve"
    AUTOMATE = "automate"


AUTOMATIC: Final = (JobKind.HEAL, JobKind.RELIEVE)
"""What routers begin by themselves, unless `automate` has switched it off."""

GAINS_REPLICA: Final = frozenset({Action.MOVE, Action.ADD})
"""Actions after which the task's node has a replica that it did not have."""

CHANGES_HOLDERS: Final = GAINS_REPLICA | {Action.REMOVE}
"""Actions that change which nodes hold a partition: one job at a time for each partition (C4)."""

COPIES_INDEX: Final = GAINS_REPLICA | {Action.REBUILD, Action.COPY, Action.SNAPSHOT, Action.STAGE}
"""Actions for which the task's node writes a whole index."""

SHORTENS_LOG: Final = frozenset({Action.TRIM, Action.COMPACT})
"""Actions that remove records from a log."""
