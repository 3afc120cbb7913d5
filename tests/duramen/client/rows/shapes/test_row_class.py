"""Instances of values: quickly where the constructor only assigns, and by the constructor where it does more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from duramen.client.rows.shapes.row_class import row_class_of


@dataclass
class Plain:
    x: int
    y: str = "y"


@dataclass(frozen=True)
class Frozen:
    x: int
    y: str = "y"


@dataclass(slots=True)
class Slotted:
    x: int
    y: str = "y"


@dataclass
class OwnConstructor:
    x: int
    y: str = "y"

    def __init__(self, x: int, y: str = "y") -> None:
        self.x, self.y = x, y.upper()


@dataclass
class OwnSetter:
    x: int
    y: str = "y"

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value.upper() if name == "y" else value)


CLASSES = [Plain, Frozen, Slotted, OwnConstructor, OwnSetter]


@pytest.mark.parametrize("python", CLASSES, ids=lambda each: each.__name__)
def test_an_instance_is_what_its_constructor_makes(python: type) -> None:
    assert row_class_of(python).make({"x": 1, "y": "a"}) == python(x=1, y="a")
