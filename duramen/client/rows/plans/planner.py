"""From a table's schema, and the hint of the class that its rows shall be, to a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from duramen.client.rows.plans.compound_plans import (
    enum_plan,
    list_plan,
    map_plan,
    optional_plan,
    symbol_plan,
    union_plan,
)
from duramen.client.rows.plans.decimal_plan import decimal_plan
from duramen.client.rows.plans.default_values import default_value
from duramen.client.rows.plans.record_plan import NO_VALUE, FieldPlan, Prepare, complete_record, record_plan
from duramen.client.rows.plans.refusals import misfit
from duramen.client.rows.plans.scalar_plans import fixed_plan, scalar_plan
from duramen.client.rows.plans.time_plans import TIME_KINDS, time_plan
from duramen.client.rows.plans.value_plan import ValuePlan
from duramen.client.rows.shapes.hints import Hint
from duramen.client.rows.shapes.row_class import RowClass, row_class_of
from log_tier.rows.schema import RowSchema

__all__ = ["RowPlan", "plan_field", "plan_rows"]

_KINDS: Final = {
    "null": "none",
    "boolean": "bool",
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "string": "str",
    "bytes": "bytes",
    "fixed": "bytes",
    "array": "list",
    "map": "map",
    "enum": "enum",
    "record": "class",
}
"""The hint that each type of Avro fits."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """What is done with the rows of a table."""

    plan: ValuePlan
    prepare: Prepare


def plan_rows(schema: RowSchema, hint: Hint | None) -> RowPlan:
    """The plan of the rows of a schema, as instances of the hint's class, or as dicts (None).

    Raises `InvalidSchema`, which names the field, where the class is not what the schema has.
    """
    planner = _Planner(schema.named)
    plan = planner.plan(schema.named[schema.name], hint, "")
    return RowPlan(plan, planner.prepares[id(plan)])


def plan_field(schema: RowSchema, hint: Hint | None, path: Sequence[int], name: str) -> ValuePlan:
    """The plan of what a path of a patch leads to. `name`: of the field, for messages. Raises `InvalidSchema`."""
    planner = _Planner(schema.named)
    type_: Any = schema.name
    for step in path:
        found: Any = schema.named.get(type_, type_) if isinstance(type_, str) else type_
        if isinstance(found, list):
            type_ = found[step]
            hint = planner.branch_hint(type_, hint, name)
        else:
            field_ = found["fields"][step]
            hints = {} if hint is None else {each.name: each.hint for each in row_class_of(hint.python).fields}
            type_, hint = field_["type"], hints.get(field_["name"])
    return planner.plan(type_, hint, name)


@dataclass(slots=True)
class _Planner:
    named: Mapping[str, Any]
    records: dict[tuple[str, Any], ValuePlan] = field(default_factory=dict)
    prepares: dict[int, Prepare] = field(default_factory=dict)
    converts: set[int] = field(default_factory=set)
    """Plans whose values are refined even where they fit."""

    def plan(self, given: Any, hint: Hint | None, path: str) -> ValuePlan:
        if isinstance(given, list):
            return self._union(given, hint, path)
        found = self.named.get(given, given) if isinstance(given, str) else given
        kind = found if isinstance(found, str) else found["type"]
        logical = "" if isinstance(found, str) else found.get("logicalType", "")
        self._check_hint(found, kind, logical, hint, path)
        if logical in TIME_KINDS:
            return time_plan(logical)
        if logical == "decimal":
            return decimal_plan(found["precision"], found.get("scale", 0))
        if logical == "uuid":
            return scalar_plan("uuid")
        match kind:
            case "record":
                return self._record(found, hint, path)
            case "enum":
                if hint is None:
                    return symbol_plan(found["symbols"])
                return self._converting(enum_plan(hint.python, found["symbols"]))
            case "array":
                inner = self.plan(found["items"], hint and hint.of[0], f"{path}[]")
                return self._as(inner, list_plan(inner))
            case "map":
                inner = self.plan(found["values"], hint and hint.of[0], f"{path}[]")
                return self._as(inner, map_plan(inner, scalar_plan("string")))
            case "fixed":
                return fixed_plan(found["size"])
        return scalar_plan(kind)

    def _check_hint(self, found: Any, kind: str, logical: str, hint: Hint | None, path: str) -> None:
        if hint is None:
            return
        wanted = TIME_KINDS.get(logical) or {"decimal": "decimal", "uuid": "uuid"}.get(logical) or _KINDS[kind]
        if hint.kind != wanted:
            raise misfit(path, f"it is {_shown(hint)} here, and {logical or kind} in the table")
        if logical == "decimal" and hint.digits is not None:
            here, there = (hint.digits.precision, hint.digits.scale), (found["precision"], found.get("scale", 0))
            if here != there:
                raise misfit(path, f"it has {here[0]} digits, {here[1]} behind the point, here, {there} in the table")
        if kind == "enum":
            names = [each.name for each in hint.python]
            missing = [each for each in found["symbols"] if each not in names]
            missing += [each for each in names if each not in found["symbols"]]
            if missing:
                raise misfit(
                    path, f"the enum has {missing[0]} in one of {hint.python.__name__} and the table, not in both"
                )

    def _record(self, found: Any, hint: Hint | None, path: str) -> ValuePlan:
        python = None if hint is None else hint.python
        known = self.records.get((found["name"], python))
        if known is not None:
            return known
        row_class = None if python is None else row_class_of(python)
        expected = f"a {python.__name__}" if python is not None else f"a dict with the fields of {found['name']}"
        plan = self.records[(found["name"], python)] = record_plan(expected, of_class=python is not None)
        if row_class is not None:
            self.converts.add(id(plan))
            _check_fields(found, row_class, path)
        hints = {} if row_class is None else {each.name: each.hint for each in row_class.fields}
        fields = []
        for each in found["fields"]:
            inner = self.plan(each["type"], hints.get(each["name"]), f"{path}.{each['name']}" if path else each["name"])
            default = default_value(each["default"], each["type"], self.named) if "default" in each else NO_VALUE
            fields.append(FieldPlan(each["name"], inner, id(inner) in self.converts, default))
        if any(each.converted for each in fields):
            self.converts.add(id(plan))
        self.prepares[id(plan)] = complete_record(plan, fields, row_class)
        return plan

    def _union(self, branches: list[Any], hint: Hint | None, path: str) -> ValuePlan:
        if hint is not None and hint.kind != "union":
            raise misfit(path, f"it is {_shown(hint)} here, and a union in the table")
        hints = [self.branch_hint(each, hint, path) for each in branches]
        left = [] if hint is None else [each for each in hint.of if each not in hints]
        if left:
            raise misfit(path, f"it may be {_shown(left[0])} here, and not in the table")
        plans = [self.plan(each, inner, path) for each, inner in zip(branches, hints, strict=True)]
        if len(branches) == 2 and "null" in branches:
            inner = plans[1 - branches.index("null")]
            return self._as(inner, optional_plan(inner))
        named = [
            (self._branch_name(each), plan, self._read_as(each)) for each, plan in zip(branches, plans, strict=True)
        ]
        return self._converting(union_plan(named))

    def branch_hint(self, branch: Any, hint: Hint | None, path: str) -> Hint | None:
        if hint is None:
            return None
        for each in hint.of:
            found = self.named.get(branch, branch) if isinstance(branch, str) else branch
            kind = found if isinstance(found, str) else found["type"]
            logical = "" if isinstance(found, str) else found.get("logicalType", "")
            wanted = TIME_KINDS.get(logical) or {"decimal": "decimal", "uuid": "uuid"}.get(logical) or _KINDS[kind]
            if each.kind == wanted:
                return each
        raise misfit(
            path, f"it may be {branch if isinstance(branch, str) else branch['type']} in the table, and not here"
        )

    def _branch_name(self, branch: Any) -> str:
        if isinstance(branch, str):
            return branch
        return str(branch["name"] if branch["type"] in ("record", "enum", "fixed") else branch["type"])

    def _read_as(self, branch: Any) -> type | None:
        found = self.named.get(branch, branch) if isinstance(branch, str) else branch
        kind = found if isinstance(found, str) else found["type"]
        return {"record": dict, "map": dict, "array": list, "enum": str}.get(kind)

    def _as(self, inner: ValuePlan, outer: ValuePlan) -> ValuePlan:
        return self._converting(outer) if id(inner) in self.converts else outer

    def _converting(self, plan: ValuePlan) -> ValuePlan:
        self.converts.add(id(plan))
        plan.fits = _never
        plan.test = None
        return plan


def _never(_value: Any) -> bool:
    return False


def _check_fields(found: Any, row_class: RowClass, path: str) -> None:
    name = row_class.python.__name__
    here, there = {each.name for each in row_class.fields}, {each["name"] for each in found["fields"]}
    for each in found["fields"]:
        if each["name"] not in here:
            inside = f"{path}.{each['name']}" if path else each["name"]
            raise misfit(inside, f"the table's rows have it, {name} has not: add it to {name}")
    for field_ in row_class.fields:
        if field_.name not in there:
            inside = f"{path}.{field_.name}" if path else field_.name
            raise misfit(inside, f"{name} has it, the table's rows have not: take it out of {name}")


def _shown(hint: Hint) -> str:
    if hint.kind == "union":
        return " | ".join(map(_shown, hint.of))
    return hint.python.__name__ if hint.python is not None else {"none": "None"}.get(hint.kind, hint.kind)
