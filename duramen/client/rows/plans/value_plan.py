"""What a plan is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["ValuePlan"]


@dataclass(slots=True)
class ValuePlan:
    """What is done with the values of one type of a schema. It is complete once it is used: a record in itself has its
    plan before its fields have.
    """

    expected: str
    """The type in words, for messages: "an int of 64 bits"."""
    fits: Callable[[Any], bool]
    """May the value go to fastavro as it is? Without exceptions, and never True where `refine` raises, but for text
    that UTF-8 does not have: fastavro finds that."""
    refine: Callable[[Any, str], Any]
    """From a value and its dotted path to what fastavro takes. Raises `InvalidRow`."""
    test: str | None = None
    """`fits` as an expression of Python in which {v} is the value's name; None: it has to be called."""
    restore: Callable[[Any], Any] | None = None
    """From what fastavro has read to the caller's value; None: it is that."""

    def restored(self, found: Any) -> Any:
        """`restore`, looked up when it is called."""
        return found if self.restore is None else self.restore(found)
