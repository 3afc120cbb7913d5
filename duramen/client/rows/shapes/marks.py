"""What the annotation of a row's field says, where Python's type does not say enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from log_tier.model.errors import InvalidSchema

__all__ = ["NAIVE", "Digits", "NaiveMark"]

_DIGITS_MAX: Final = 1000
"""As the schema's."""


@dataclass(frozen=True, slots=True)
class Digits:
    """How many digits a `Decimal` of a row has, and how many of them are behind the point.

        price: Annotated[Decimal, duramen.Digits(12, 2)]        # up to 9999999999.99

    Raises `InvalidSchema` unless 1 <= precision <= 1000 and 0 <= scale <= precision.
    """

    precision: int
    scale: int = 0

    def __post_init__(self) -> None:
        if type(self.precision) is not int or not 0 < self.precision <= _DIGITS_MAX:
            raise _refused(f"the precision is 1 to {_DIGITS_MAX} digits, not {self.precision!r}")
        if type(self.scale) is not int or not 0 <= self.scale <= self.precision:
            raise _refused(f"the scale is 0 to {self.precision} of the digits, not {self.scale!r}")


class NaiveMark:
    """The type of `NAIVE`."""

    def __repr__(self) -> str:
        return "duramen.NAIVE"


NAIVE: Final = NaiveMark()
"""Says that a `datetime` of a row has no time zone: `Annotated[datetime, duramen.NAIVE]`."""


def _refused(why: str) -> InvalidSchema:
    return InvalidSchema(f"Digits: {why}", field="", reason=why)
