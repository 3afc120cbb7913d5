"""The life of a replica, as scripts: what each event makes of it, and what is done about it.

A script is blocks between blank lines: an event a line, `---`, and what came of each. Record again with
DURAMEN_RECORD=1. A line with `lag` is a measurement, which `lag_event` turns into an event; `open` begins with another
replica.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.golden import check_script, play_blocks

from serving_tier.replica.lag import LagBounds, lag_event
from serving_tier.replica.machine import EFFECTS, EVENTS, STATES, TABLE, MachineEvent, ReplicaState, step

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))
BOUNDS = LagBounds(ready_max_s=1.0, behind_max_s=5.0)
FOLLOWING: tuple[ReplicaState, ...] = ("replaying", "ready", "behind")


def event_of(line: str) -> MachineEvent:
    """`lag 0.5 s, replayed` or the name of an event."""
    words = line.replace(",", "").split()
    if words[0] == "lag":
        return lag_event(replayed="replayed" in words, lag_s=float(words[1]), bounds=BOUNDS)
    assert line in EVENTS, f"{line!r} is no event"
    return line


def play(text: str, seen: set[tuple[ReplicaState, MachineEvent]] | None = None) -> str:
    """The script with what comes of each event. `seen` gets each state with the event that met it."""
    state: ReplicaState = "replaying"

    def meet(line: str) -> str:
        nonlocal state
        if line == "open":
            state = "replaying"
            return state
        before, event = state, event_of(line)
        state, effects = step(state, event)
        if seen is not None:
            seen.add((before, event))
        arrow = f"{before} -> {state}" if state != before else state
        return ": ".join(filter(None, (arrow, ", ".join(effects))))

    return play_blocks(text, meet)


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 7


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script: Path) -> None:
    check_script(script, play(script.read_text(encoding="utf-8")))


def test_the_scripts_meet_every_event_in_every_state() -> None:
    """A state or an event that is added is not done before a script shows what comes of it, also where that is nothing:
    an event that a state ignores is in a script as well.
    """
    seen: set[tuple[ReplicaState, MachineEvent]] = set()
    for script in SCRIPTS:
        play(script.read_text(encoding="utf-8"), seen)
    missing = {(state, event) for state in STATES for event in EVENTS} - seen
    assert not missing, f"no script in {SCRIPTS[0].parent} shows {sorted(missing)}"


def test_every_event_has_its_row_in_every_state() -> None:
    assert set(TABLE) == set(STATES)
    for state, row in TABLE.items():
        assert set(row) == set(EVENTS), state
    named = {effect for row in TABLE.values() for _, effects in row.values() for effect in effects}
    assert named == set(EFFECTS), "each effect is somebody's"


def test_the_index_is_left_and_waiters_are_woken_before_anybody_hears_of_an_end() -> None:
    for state in FOLLOWING:
        for event, (then, effects) in TABLE[state].items():
            if then in ("stopped", "closed"):
                order = [effect for effect in effects if effect in ("leave_index", "fail_waiters")]
                assert order == ["leave_index", "fail_waiters"], (state, event)
                assert not any(effect.startswith("report") for effect in effects[: effects.index("fail_waiters")])


def test_nothing_leads_out_of_the_ends() -> None:
    for event in EVENTS:
        assert TABLE["closed"][event] == ("closed", ())
        then, effects = TABLE["stopped"][event]
        assert then == ("closed" if event == "closed" else "stopped")
        assert not any(effect.startswith("report") for effect in effects)
