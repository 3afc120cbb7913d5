"""The plan of a record: whether its fields fit is one generated expression, as a call for each would cost as much as
the encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, Final
from uuid import UUID

from duramen.client.rows.plans.refusals import row_refusal
from duramen.client.rows.plans.value_plan import ValuePlan
from duramen.client.rows.shapes.row_class import RowClass
from log_tier.model.errors import InvalidRow

__all__ = ["NO_VALUE", "FieldPlan", "Prepare", "complete_record", "record_plan"]

Prepare = Callable[[Any], dict[str, Any] | None]
"""From a row to what fastavro takes; None: it has to be refined. Raises `InvalidRow`, whose path begins at the row."""

NO_VALUE: Final = object()
"""Of a field without a default."""

_DEPTH_MAX: Final = 64
"""Records in records. Replicas read no more."""


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """A field of a record."""

    name: str
    plan: ValuePlan
    converted: bool
    """Is a value refined even where it fits? Classes and enums are, and what has them inside."""
    default: Any = NO_VALUE
    """What fastavro is given where a dict does not have the field."""


def record_plan(expected: str, *, of_class: bool) -> ValuePlan:
    """The plan of a record whose fields are not known yet: it may be in itself."""

    def unknown(*_: Any) -> Any:
        raise AssertionError("the plan of this record is not complete")

    return ValuePlan(expected, unknown, unknown, restore=unknown if of_class else None)


def complete_record(plan: ValuePlan, fields: Sequence[FieldPlan], row_class: RowClass | None) -> Prepare:
    """Complete a record's plan, and return its quick way."""
    prepare = _prepare(fields, row_class)
    names = {each.name for each in fields}

    def values_of(value: Any, path: str) -> Mapping[str, Any]:
        if row_class is not None:
            if type(value) is not row_class.python:
                raise row_refusal(path, value, plan.expected, "the table has rows of one class")
            return {name: getattr(value, name) for name in names}
        if not isinstance(value, Mapping):
            raise row_refusal(path, value, plan.expected, "the field is not optional" if value is None and path else "")
        for name in value:
            if name not in names:
                raise row_refusal(_joined(path, str(name)), value[name], "none", f"{plan.expected} has no such field")
        return value

    def refine(value: Any, path: str) -> dict[str, Any]:
        if path.count(".") > _DEPTH_MAX:
            raise InvalidRow(
                f"the row has records more than {_DEPTH_MAX} deep", field=path[:80], expected=plan.expected
            )
        values = values_of(value, path)
        made = {}
        for each in fields:
            inside = _joined(path, each.name)
            if each.name in values:
                made[each.name] = each.plan.refine(values[each.name], inside)
            elif each.default is not NO_VALUE:
                made[each.name] = each.default
            else:
                message = f"the field {inside} is missing, its type is {each.plan.expected}"
                raise InvalidRow(message, field=inside, expected=each.plan.expected)
        return made

    plan.refine = refine
    if row_class is None and not any(each.converted for each in fields):
        tests = [(each.name, each.plan) for each in fields]
        plan.fits = lambda value: (
            type(value) is dict
            and len(value) == len(tests)
            and all(name in value and inner.fits(value[name]) for name, inner in tests)
        )
    else:
        plan.fits = lambda value: False
    plan.restore = _restore(fields, row_class)
    return prepare


def _restore(fields: Sequence[FieldPlan], row_class: RowClass | None) -> Callable[[Any], Any] | None:
    restored = [(each.name, each.plan) for each in fields if each.plan.restore is not None or each.converted]
    make = None if row_class is None else row_class.make
    if not restored:
        return make

    def restore(found: dict[str, Any]) -> Any:
        for name, plan in restored:
            if plan.restore is not None:
                found[name] = plan.restore(found[name])
        return found if make is None else make(found)

    return restore


def _prepare(fields: Sequence[FieldPlan], row_class: RowClass | None) -> Prepare:
    """The generated function. Its source has names of fields, as literals, and nothing else of what is given."""
    known: dict[str, Any] = {"UUID": UUID, "date": date, "datetime": datetime, "time": time}
    in_dict = row_class is None or row_class.in_dict
    lines = ["def prepare(row):"]
    if row_class is None:
        lines += ["    values = row", f"    if type(row) is not dict or len(row) != {len(fields)}: return None"]
    else:
        known["python"] = row_class.python
        lines += ["    if type(row) is not python: return None"]
        lines += ["    values = row.__dict__"] if in_dict else []
    for number, each in enumerate(fields):
        source = f"values[{each.name!r}]" if in_dict else f"row.{each.name}"
        lines.append(f"    v{number} = {source}")
    tests = []
    for number, each in enumerate(fields):
        known[f"fits{number}"], known[f"refine{number}"] = each.plan.fits, each.plan.refine
        if not each.converted:
            test = each.plan.test or f"fits{number}({{v}})"
            tests.append(f"({test.format(v=f'v{number}')})")
    if tests:
        lines.append(f"    if not ({' and '.join(tests)}): return None")
    if in_dict and not any(each.converted for each in fields):
        lines.append("    return values")
    else:
        made = [
            f"{each.name!r}: " + (f"refine{number}(v{number}, {each.name!r})" if each.converted else f"v{number}")
            for number, each in enumerate(fields)
        ]
        lines.append(f"    return {{{', '.join(made)}}}")
    exec("\n".join(lines), known)
    return known["prepare"]  # type: ignore[no-any-return]


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
