"""How a command is refused that waits for its round: another one takes its place, which does nothing but fail. Pure.

So its reply keeps its place among those of its connection, and nothing that counts or orders commands knows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from router.endpoints.resp.data.key_views import DataCommand
from router.endpoints.resp.wire.replies import Problem

__all__ = ["Judge", "refusing"]

Judge = Callable[[DataCommand, Sequence[bytes]], Problem | None]
"""Says of a command and its arguments why its caller may not run it any more; None: it may."""


def refusing(problem: Problem) -> DataCommand:
    """What is run in the place of a command that is refused."""

    def refuse(_view: object, _args: Sequence[bytes]) -> Any:
        raise problem

    return refuse
