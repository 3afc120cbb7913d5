"""Which field a path leads to, and what may be done to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from log_tier.rows.avro.avro_types import AvroType, NamedTypes, branch_name
from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.avro.row_reader import READER_ERRORS, ReaderTree, located
from log_tier.rows.avro.row_room import RowRoom
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.patches.row_patch import FieldChange, FieldOperation, RowPatch
from log_tier.rows.schema import RowSchema

__all__ = [
    "ChangeTree",
    "FieldPlace",
    "change_tree",
    "checked_tree",
    "operations_of",
    "path_of",
    "place_at",
    "resolved_type",
]

ChangeTree = dict[int, Any]
"""The changes of a patch by their steps: from each step to the next ones, and at the end to the change's number."""

_SET: Final = frozenset({FieldOperation.SET})
_COMPARED: Final = _SET | {FieldOperation.MIN, FieldOperation.MAX}
_NUMBERS: Final = _COMPARED | {FieldOperation.ADD, FieldOperation.MULTIPLY}
_LONGER: Final = _SET | {FieldOperation.APPEND}

_OF_KINDS: Final = {
    **dict.fromkeys(("int", "long", "float", "double"), _NUMBERS),
    **dict.fromkeys(("string", "bytes", "array"), _LONGER),
}


class FieldPlace(NamedTuple):
    """Where a path ends."""

    type: AvroType
    """Of the field, or of the union's type that the last step chose."""
    name: str
    """Dotted: `address.city`."""
    in_union: bool
    """The last step chose a type of a union."""


def resolved_type(type_: AvroType, named: NamedTypes) -> Any:
    """The type behind a name."""
    return named.get(type_, type_) if isinstance(type_, str) else type_


def operations_of(found: Any) -> frozenset[FieldOperation]:
    """What may be done to a value of a type whose name has been looked up."""
    if isinstance(found, list):
        return _SET
    logical = logical_of(found)
    if logical == "decimal":
        return _NUMBERS
    kind = found if isinstance(found, str) else found["type"]
    if logical is not None:
        return _COMPARED if kind in ("int", "long") else _SET
    return _OF_KINDS.get(kind, _SET)


def place_at(schema: RowSchema, path: Sequence[int]) -> FieldPlace:
    """The place at the end of a path. Raises `Misfit` where it leads to no field of the schema."""
    type_: AvroType = schema.name
    name, in_union = "", False
    for step in path:
        found = resolved_type(type_, schema.named)
        in_union = isinstance(found, list)
        if isinstance(found, list) and step < len(found):
            type_ = found[step]
        elif isinstance(found, dict) and found["type"] == "record" and step < len(found["fields"]):
            field = found["fields"][step]
            type_ = field["type"]
            name = f"{name}.{field['name']}" if name else field["name"]
        else:
            raise Misfit(f"the patch goes to part {step} of {name or 'the row'}, which there is none of")
    if not name:
        raise Misfit("the patch names no field")
    return FieldPlace(type_, name, in_union)


def path_of(schema: RowSchema, name: str, operation: FieldOperation) -> tuple[int, ...]:
    """The path of what an operation on a field changes, by its dotted name. Through unions it goes where the name does,
    and at its end to the type that the operation is for.

    Raises `Misfit` for a name that no field has, an operation that is not for it, and a union that leaves a choice.
    """
    type_: AvroType = schema.name
    path: list[int] = []
    for part in name.split("."):
        type_ = _into(path, type_, schema.named, partial(_has_field, part))
        found = resolved_type(type_, schema.named)
        slot = _slot(found, part)
        if slot is None:
            fields = [each["name"] for each in found["fields"]] if _is_record(found) else []
            raise Misfit(f"there is no field {ascii(part)[1:-1][:60]}: {_known(found, fields)}")
        path.append(slot)
        type_ = found["fields"][slot]["type"]
    if operation is not FieldOperation.SET:
        type_ = _into(path, type_, schema.named, lambda found: operation in operations_of(found))
        found = resolved_type(type_, schema.named)
        if operation not in operations_of(found):
            raise Misfit(f"{operation.name.lower()} is not for {_shown(found)}: {_instead(found)}")
    return tuple(path)


def _into(path: list[int], type_: AvroType, named: NamedTypes, is_it: Callable[[Any], bool]) -> AvroType:
    """The one type of a union that is it, with the step to it; any other type as it is."""
    found = resolved_type(type_, named)
    if not isinstance(found, list):
        return type_
    places = [place for place, each in enumerate(found) if is_it(resolved_type(each, named))]
    if len(places) != 1:
        return type_
    path.append(places[0])
    inner: AvroType = found[places[0]]
    return inner


def _is_record(found: Any) -> bool:
    return isinstance(found, dict) and found["type"] == "record"


def _has_field(name: str, found: Any) -> bool:
    return _slot(found, name) is not None


def _slot(found: Any, name: str) -> int | None:
    if not _is_record(found):
        return None
    return next((slot for slot, each in enumerate(found["fields"]) if each["name"] == name), None)


def _known(found: Any, fields: Sequence[str]) -> str:
    return f"{found['name']} has {', '.join(fields)[:200]}" if fields else f"it would be inside of {_shown(found)}"


def _instead(found: Any) -> str:
    names = sorted(each.name.lower() for each in operations_of(found))
    return f"it takes {', '.join(names)}"


def checked_tree(schema: RowSchema, key_names: Collection[str], patch: RowPatch) -> ChangeTree:
    """The changes by their steps. Raises `Misfit` for those that no row of the schema can take: of fields that it does
    not have or that are the key's, by operations that these do not have, with operands that are not of their types,
    and two of one field.
    """
    tree = ReaderTree(schema.named)
    for change in patch.changes:
        place = place_at(schema, change.path)
        first = schema.fields[change.path[0]].name
        if first in key_names:
            raise _at(place, "it is a field of the key: delete the row, and put another one")
        found = resolved_type(place.type, schema.named)
        if change.operation not in operations_of(found) or (change.operation is FieldOperation.SET and place.in_union):
            raise _at(place, f"{change.operation.name.lower()} is not for {_shown(found)}")
        _check_operand(tree, place, change)
    return change_tree(patch, schema)


def _check_operand(tree: ReaderTree, place: FieldPlace, change: FieldChange) -> None:
    read, operand = tree.reader(place.type), change.operand
    try:
        end = 0 if read is None else read(operand, 0, len(operand), RowRoom())
        if end != len(operand):
            raise Misfit(f"its operand has {len(operand)} bytes, and the value in it {end}")
    except READER_ERRORS as error:
        raise located(error, place.name) from None


def change_tree(patch: RowPatch, schema: RowSchema) -> ChangeTree:
    """The changes by their steps. Raises `Misfit` for two changes of one field, or of one inside the other, and for two
    types of one union.
    """
    tree: ChangeTree = {}
    for number, change in enumerate(patch.changes):
        node: Any = tree
        type_: AvroType = schema.name
        for step in change.path:
            found = resolved_type(type_, schema.named)
            if not isinstance(node, dict) or (isinstance(found, list) and node and step not in node):
                raise _at(place_at(schema, change.path), "the patch changes it twice")
            type_ = found[step] if isinstance(found, list) else found["fields"][step]["type"]
            before, node = node, node.setdefault(step, {})
        if node != {}:
            raise _at(place_at(schema, change.path), "the patch changes it twice")
        before[change.path[-1]] = number
    return tree


def _at(place: FieldPlace, why: str) -> Misfit:
    misfit = Misfit(why)
    misfit.path.append(place.name)
    return misfit


def _shown(found: Any) -> str:
    if isinstance(found, list):
        return f"a union of {', '.join(map(branch_name, found))}"[:200]
    return str(found.get("logicalType", branch_name(found)) if isinstance(found, dict) else found)[:60]
