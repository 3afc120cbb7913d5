"""The planner of each verb."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from router.admin.planners.plan import Plan
from router.admin.verb import Verb

__all__ = ["planner_of"]


def planner_of(verb: Verb) -> Callable[..., Plan]:
    """The function that plans a change: of a `Situation`, the verb's fields by their names, and what the verb wants."""
    module, _, function = verb.planner.partition(":")
    planner: Callable[..., Plan] = getattr(import_module(f"router.admin.planners.{module}"), function)
    return planner
