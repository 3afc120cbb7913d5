"""A dataclass or a pydantic model as what rows are made of: its fields, and instances from values and back."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import MemberDescriptorType
from typing import Annotated, Any, Final

from duramen.client.rows.shapes.hints import Hint, hint_of, schema_refusal
from log_tier.model.errors import InvalidRow

__all__ = ["NO_DEFAULT", "ClassField", "RowClass", "row_class_of"]

NO_DEFAULT: Final = dataclasses.MISSING
"""Of a field: a row has to give it."""

# Made anew for each row, and always equal.
_EMPTY: Final[dict[Any, Any]] = {list: [], dict: {}}


@dataclass(frozen=True, slots=True)
class ClassField:
    """A field of a class of rows."""

    name: str
    hint: Hint
    default: Any = NO_DEFAULT


@dataclass(frozen=True, slots=True)
class RowClass:
    """What is needed of a class of rows."""

    python: type
    fields: tuple[ClassField, ...]
    make: Callable[[dict[str, Any]], Any]
    """An instance of values by name. Raises `InvalidRow` where the class refuses them."""
    in_dict: bool
    """Are the values of an instance in its `__dict__`, by the names of the fields?"""


@cache
def row_class_of(python: type) -> RowClass:
    """Look at a class. Raises `InvalidSchema` for fields that no schema can have. Once for each class."""
    if hasattr(python, "__pydantic_complete__"):
        return RowClass(python, tuple(_model_fields(python)), _validated(python), True)
    return RowClass(python, tuple(_dataclass_fields(python)), _constructed(python), _in_dict(python))


def _dataclass_fields(python: Any) -> Iterator[ClassField]:
    try:
        annotations = typing.get_type_hints(python, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise schema_refusal(
            "",
            f"the annotations of {python.__name__} cannot be read ({error}): define the types in them at the top level",
        ) from error
    if any(isinstance(each, dataclasses.InitVar) for each in annotations.values()):
        raise schema_refusal(
            "", f"{python.__name__} has an InitVar, which a row that is read cannot give: make it a field"
        )
    for field in dataclasses.fields(python):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = _EMPTY.get(field.default_factory, NO_DEFAULT)
        yield ClassField(field.name, hint_of(annotations[field.name], field.name), default)


def _model_fields(python: Any) -> Iterator[ClassField]:
    if not python.__pydantic_complete__:
        python.model_rebuild()
    for name, field in python.model_fields.items():
        annotation = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        default = NO_DEFAULT if field.is_required() else field.default
        if field.default_factory is not None:
            default = _EMPTY.get(field.default_factory, NO_DEFAULT)
        yield ClassField(name, hint_of(annotation, name), default)


def _constructed(python: Any) -> Callable[[dict[str, Any]], Any]:
    if _only_assigns(python):

        def filled(values: dict[str, Any], make: Callable[[type], Any] = object.__new__) -> Any:
            made = make(python)
            made.__dict__.update(values)
            return made

        return filled
    if _only_fills_slots(python):
        return _slots_filled(python)
    later = [field.name for field in dataclasses.fields(python) if not field.init]
    if not later:
        return lambda values: python(**values)

    def constructed(values: dict[str, Any]) -> Any:
        made = python(**{name: value for name, value in values.items() if name not in later})
        for name in later:
            object.__setattr__(made, name, values[name])
        return made

    return constructed


def _slots_filled(python: Any) -> Callable[[dict[str, Any]], Any]:
    """The instance of values by name, each set in its slot: half of what the constructor costs."""
    names = [field.name for field in dataclasses.fields(python)]
    known: dict[str, Any] = {f"set{number}": getattr(python, name).__set__ for number, name in enumerate(names)}
    known |= {"make": object.__new__, "python": python}
    lines = [f"    set{number}(made, values[{name!r}])" for number, name in enumerate(names)]
    exec("\n".join(["def filled(values):", "    made = make(python)", *lines, "    return made"]), known)
    return known["filled"]  # type: ignore[no-any-return]


def _only_fills_slots(python: Any) -> bool:
    """Does its constructor do nothing but set each field in a slot of its own?"""
    return _is_plain(python) and all(
        isinstance(getattr(python, each.name, None), MemberDescriptorType) for each in dataclasses.fields(python)
    )


def _only_assigns(python: Any) -> bool:
    """Does its constructor do nothing but set each field in the instance's `__dict__`? Then that is done at once, for
    less than half of what the call costs.
    """
    return (
        _is_plain(python)
        and _in_dict(python)
        and not any(hasattr(getattr(python, field.name, None), "__set__") for field in dataclasses.fields(python))
    )


def _is_plain(python: Any) -> bool:
    """Is it a dataclass whose constructor is the generated one, and whose fields are set as any object's are?"""
    return (
        "__dataclass_params__" in vars(python)
        and _is_generated(python.__init__)
        and (python.__dataclass_params__.frozen or python.__setattr__ is object.__setattr__)
        and python.__new__ is object.__new__
        and not hasattr(python, "__post_init__")
    )


def _is_generated(method: Any) -> bool:
    """Has `dataclasses` made it? It keeps one that the class has written itself."""
    code = getattr(method, "__code__", None)
    return code is not None and code.co_qualname.startswith("__create_fn__")


def _in_dict(python: type) -> bool:
    return not any("__slots__" in vars(each) for each in python.__mro__[:-1])


def _validated(python: Any) -> Callable[[dict[str, Any]], Any]:
    def make(values: dict[str, Any]) -> Any:
        from pydantic import ValidationError

        try:
            return python.model_validate(values, by_alias=False, by_name=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            path = ".".join(map(str, first["loc"]))
            raise InvalidRow(
                f"a row of the table is no {python.__name__}: {path}: {first['msg']}; it was written by what knows no "
                f"{python.__name__}",
                field=path,
                expected=python.__name__,
            ) from error

    return make
