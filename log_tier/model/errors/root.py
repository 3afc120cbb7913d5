"""The root of the tree of errors, and the way back from a code to its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal, Self

__all__ = ["ERRORS", "DuramenError", "Fault", "FieldValue", "error_from_code"]

Fault = Literal["caller", "transient", "data", "state"]
FieldValue = int | str

_PACKAGE: Final = "log_tier.model.errors"

_classes: dict[str, type[DuramenError]] = {}

ERRORS: Final[Mapping[str, type[DuramenError]]] = _classes
"""Every class of this package by its wire name."""


class DuramenError(Exception):
    """The root of all errors. `message` is for people, `fields` for programs.

    Do: catch it around calls; look at `retryable` and `code`. The bare class means an error of a newer
    version: upgrade this process.
    """

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    fault: ClassVar[Fault] = "state"

    def __init__(self, message: str, **fields: FieldValue) -> None:
        super().__init__(message)
        self.message = message
        self.fields: Mapping[str, FieldValue] = fields

    def __init_subclass__(cls) -> None:
        """Note a class of this package under its code. Its module is the package: the one name for tracebacks, pickles
        and `except` clauses, whichever file defines it. A subclass outside of this package keeps its parent's code and
        its module.
        """
        super().__init_subclass__()
        if cls.__module__.startswith(f"{_PACKAGE}."):
            cls.__module__ = _PACKAGE
            assert cls.code not in _classes, f"{cls.__name__} has the code of {_classes[cls.code].__name__}"
            _classes[cls.code] = cls

    def as_value(self) -> Self:
        """This error as one result of many: without its traceback, context and cause. Their frames, of thousands of
        errors, hold the whole request, and the garbage collector walks them all in one turn of the event loop.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (error_from_code, (self.code, self.message, dict(self.fields)))


DuramenError.__module__ = _PACKAGE
_classes[DuramenError.code] = DuramenError


def error_from_code(code: str, message: str, fields: Mapping[str, FieldValue]) -> DuramenError:
    """Rebuild an error that crossed a wire. An unknown code (a newer server's) becomes the root class."""
    return ERRORS.get(code, DuramenError)(message, **dict(fields))
