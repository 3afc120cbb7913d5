"""Filters as PySpark passes them, without a PySpark: what counts are their names and fields."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any

from hypothesis import strategies as st

__all__ = ["Filter", "filters"]


@dataclass(frozen=True)
class Filter:
    """One filter, and what it means."""

    name: str
    attribute: tuple[str, ...]
    value: bytes

    @property
    def on_key(self) -> bool:
        """Is it one that the source takes?"""
        return self.attribute == ("key",)

    def lets(self, key: bytes) -> bool:
        match self.name:
            case "EqualTo" | "EqualNullSafe":
                return key == self.value
            case "GreaterThan":
                return key > self.value
            case "GreaterThanOrEqual":
                return key >= self.value
            case "LessThan":
                return key < self.value
            case "LessThanOrEqual":
                return key <= self.value
            case "StringStartsWith":
                return key.startswith(self.value)
        assert self.name == "IsNotNull", self.name
        return True

    def as_spark(self) -> Any:
        if self.name == "IsNotNull":
            return make_dataclass(self.name, ["attribute"], frozen=True)(self.attribute)
        return make_dataclass(self.name, ["attribute", "value"], frozen=True)(self.attribute, self.value)


NAMES = [
    "EqualTo",
    "EqualNullSafe",
    "GreaterThan",
    "GreaterThanOrEqual",
    "LessThan",
    "LessThanOrEqual",
    "StringStartsWith",
    "IsNotNull",
]


def filters(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[Filter]:
    return st.builds(Filter, st.sampled_from(NAMES), st.sampled_from([("key",), ("value",), ("key", "x")]), values)
