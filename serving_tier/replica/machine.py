"""The life of a replica as a table: state and event in, state and effects out. Pure.

                 open index        level               lagging
    (absent) ──▶ replaying ──────▶ ready ────────────────────────────▶ behind     failed, damaged, ended: stopped
                                     ▲                                   │        closed, from any of them: closed
                                     └───────────────────────────────────┘
                                                   level

The state says which replica is asked first, and nothing else: a replica that is behind answers whatever it has applied.
`replica.py` performs the effects of an event in the order in which they are listed, before the next event.

Invariants, which the rows keep and the tests check:

- An index that is not to be read any more is left by its readers (`leave_index`) before any waiter is woken or hears of
  it.
- Waiters are woken (`fail_waiters`) before a listener is called (`report_…`): a listener may close the replica.
- Nothing but `closed` leads out of `stopped`, and nothing out of `closed`; no listener is called from there.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

__all__ = ["EFFECTS", "EVENTS", "STATES", "TABLE", "Effect", "MachineEvent", "ReplicaState", "step"]

ReplicaState = Literal["replaying", "ready", "behind", "stopped", "closed"]

MachineEvent = Literal[
    "level",  # what the log held at the start is applied, and the lag is small
    "between",  # neither level nor lagging
    "lagging",  # the lag is beyond the bound
    "version_missing",  # a barrier names a version that is not here
    "version_live",  # another version's index is read from now on
    "switched",  # all versions have followed over the barrier
    "ended",  # the table was dropped, or the log closes
    "failed",  # anything else stopped the follower of the log
    "damaged",  # the follower found the index damaged
    "damage_read",  # a reader found it damaged, while the log is followed
    "closed",  # the owner closes the replica; nobody follows the log any more
]

Effect = Literal[
    "forget_floor",  # reads without a token wait for nothing from now on
    "signal_ready",  # callers that wait for the replica to be ready go on
    "withdraw_ready",  # callers that ask from now on wait
    "warn_behind",
    "note_end",  # an expected end, in the process' log
    "note_failure",  # an error, in the process' log
    "cancel_follower",
    "leave_index",  # objects that hold the index let go of it
    "fail_waiters",  # callers that wait for an offset or a pinned read get `failure`
    "report_stopped",
    "report_damaged",
    "report_version_missing",
    "report_switched",
]

STATES: Final[tuple[ReplicaState, ...]] = get_args(ReplicaState)
EVENTS: Final[tuple[MachineEvent, ...]] = get_args(MachineEvent)
EFFECTS: Final[tuple[Effect, ...]] = get_args(Effect)

Transition = tuple[ReplicaState, tuple[Effect, ...]]

_ENDS: Final[dict[MachineEvent, Transition]] = {
    "ended": ("stopped", ("note_end", "leave_index", "fail_waiters")),
    "failed": ("stopped", ("note_failure", "leave_index", "fail_waiters", "report_stopped")),
    "damaged": ("stopped", ("note_failure", "leave_index", "fail_waiters", "report_damaged")),
    "damage_read": ("stopped", ("cancel_follower", "note_failure", "leave_index", "fail_waiters", "report_damaged")),
    "closed": ("closed", ("leave_index", "fail_waiters")),
}
"""The events that end a replica which follows its log, in each of the three states."""

TABLE: Final[dict[ReplicaState, dict[MachineEvent, Transition]]] = {
    "replaying": {
        "level": ("ready", ("forget_floor", "signal_ready")),
        "between": ("replaying", ()),
        "lagging": ("replaying", ()),
        "version_missing": ("replaying", ("report_version_missing",)),
        "version_live": ("replaying", ("leave_index",)),
        "switched": ("replaying", ("report_switched",)),
        **_ENDS,
    },
    "ready": {
        "level": ("ready", ()),
        "between": ("ready", ()),
        "lagging": ("behind", ("withdraw_ready", "warn_behind")),
        "version_missing": ("ready", ("report_version_missing",)),
        "version_live": ("ready", ("leave_index",)),
        "switched": ("ready", ("report_switched",)),
        **_ENDS,
    },
    "behind": {
        "level": ("ready", ("signal_ready",)),
        "between": ("behind", ()),
        "lagging": ("behind", ()),
        "version_missing": ("behind", ("report_version_missing",)),
        "version_live": ("behind", ("leave_index",)),
        "switched": ("behind", ("report_switched",)),
        **_ENDS,
    },
    "stopped": {
        **dict.fromkeys(EVENTS, ("stopped", ())),
        "closed": ("closed", ("leave_index", "fail_waiters")),
    },
    "closed": dict.fromkeys(EVENTS, ("closed", ())),
}


def step(state: ReplicaState, event: MachineEvent) -> Transition:
    """The state after an event, and the effects to perform, in this order."""
    return TABLE[state][event]
