"""Plans of enums, lists, maps and unions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from duramen.client.rows.plans.refusals import row_refusal, shown
from duramen.client.rows.plans.value_plan import ValuePlan
from log_tier.model.errors import InvalidRow

__all__ = ["enum_plan", "list_plan", "map_plan", "optional_plan", "symbol_plan", "union_plan"]


def symbol_plan(symbols: Sequence[str]) -> ValuePlan:
    """The plan of an enum whose values are text."""
    known = frozenset(symbols)
    expected = f"one of {', '.join(symbols[:8])}{' …' if len(symbols) > 8 else ''}"

    def refine(value: Any, path: str) -> str:
        if isinstance(value, str) and value in known:
            return str.__str__(value)
        raise row_refusal(path, value, expected)

    return ValuePlan(expected, lambda value: type(value) is str and value in known, refine)


def enum_plan(python: type[Enum], symbols: Sequence[str]) -> ValuePlan:
    """The plan of an enum of Python. Its members' names are the symbols."""
    known = frozenset(symbols)

    def refine(value: Any, path: str) -> str:
        if type(value) is python and value.name in known:
            return value.name
        todo = f"say {python.__name__}(…)" if type(value) is not python else "the table's schema does not have it"
        raise row_refusal(path, value, f"a {python.__name__}", todo)

    return ValuePlan(f"a {python.__name__}", lambda value: False, refine, restore=python.__getitem__)


def list_plan(item: ValuePlan) -> ValuePlan:
    """The plan of a list."""
    expected = f"a list, each item {item.expected}"

    def fits(value: Any) -> bool:
        return type(value) is list and all(map(item.fits, value))

    def refine(value: Any, path: str) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            todo = "say list(…)" if isinstance(value, (set, frozenset)) else ""
            raise row_refusal(path, value, expected, todo or ("the field is not optional" if value is None else ""))
        return [item.refine(each, f"{path}[{number}]") for number, each in enumerate(value)]

    def restore(found: list[Any]) -> list[Any]:
        return list(map(item.restored, found))

    return ValuePlan(expected, fits, refine, restore=None if item.restore is None else restore)


def map_plan(inner: ValuePlan, key: ValuePlan) -> ValuePlan:
    """The plan of a dict with keys of text. `key`: the plan of text."""
    expected = f"a dict from str to {inner.expected}"

    def fits(value: Any) -> bool:
        return type(value) is dict and all(map(key.fits, value)) and all(map(inner.fits, value.values()))

    def refine(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise row_refusal(path, value, expected, "the field is not optional" if value is None else "")
        return {
            key.refine(name, f"{path}[{shown(name)}]"): inner.refine(each, f"{path}[{shown(name)}]")
            for name, each in value.items()
        }

    def restore(found: dict[str, Any]) -> dict[str, Any]:
        return {name: inner.restored(each) for name, each in found.items()}

    return ValuePlan(expected, fits, refine, restore=None if inner.restore is None else restore)


def optional_plan(inner: ValuePlan) -> ValuePlan:
    """The plan of a union of null and one type."""
    expected = f"{inner.expected} or None"

    def refine(value: Any, path: str) -> Any:
        return None if value is None else inner.refine(value, path)

    def restore(found: Any) -> Any:
        return None if found is None else inner.restored(found)

    return ValuePlan(
        expected,
        lambda value: value is None or inner.fits(value),
        refine,
        None if inner.test is None else f"({{v}} is None or {inner.test})",
        None if inner.restore is None else restore,
    )


def union_plan(branches: Sequence[tuple[str, ValuePlan, type | None]]) -> ValuePlan:
    """The plan of any other union: the names of its branches, their plans, and what fastavro reads of those that have a
    `restore`.

    A value goes to fastavro with the name of its branch, which is the first that it fits, else the first that takes it.
    """
    expected = " or ".join(plan.expected for _, plan, _ in branches)
    restores = {python: plan for _, plan, python in branches if plan.restore is not None and python is not None}

    def refine(value: Any, path: str) -> Any:
        for name, plan, _ in branches:
            if plan.fits(value):
                try:
                    return (name, plan.refine(value, path))
                except InvalidRow:
                    continue
        for name, plan, _ in branches:
            try:
                return (name, plan.refine(value, path))
            except InvalidRow:
                continue
        raise row_refusal(path, value, expected)

    def restore(found: Any) -> Any:
        plan = restores.get(type(found))
        return found if plan is None else plan.restored(found)

    return ValuePlan(expected, lambda value: False, refine, restore=restore if restores else None)
