"""The end of a run of the workload of `duramen check`: its calls become part of the story, and its checker decides."""

from __future__ import annotations

from duramen.testing.machine.story import RunStory
from duramen.verification.checker import check_history
from duramen.verification.history import History
from simulation.book import Broken

__all__ = ["judge"]


def judge(history: History, story: RunStory) -> None:
    """Raises `Broken` for the first promise that the history breaks."""
    for call in history.calls:
        story.tell(f"client {call.client}", f"{call.kind} {call.arguments} {call.outcome} {call.reply}")
        story.met[f"answer {call.outcome}"] += 1
    for violation in check_history(history):
        raise Broken(violation.invariant, f"{violation.what} (calls {violation.calls})")
