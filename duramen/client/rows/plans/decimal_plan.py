"""The plan of decimals: so many digits, so many of them behind the point."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from duramen.client.rows.plans.refusals import row_refusal
from duramen.client.rows.plans.value_plan import ValuePlan

__all__ = ["decimal_plan"]


def decimal_plan(precision: int, scale: int) -> ValuePlan:
    """The plan. A value is brought to the scale where no digit is lost by that."""
    expected = f"a Decimal of {precision} digits, {scale} of them behind the point"

    def fits(value: Any) -> bool:
        if type(value) is not Decimal:
            return False
        _, digits, exponent = value.as_tuple()
        return exponent == -scale and len(digits) <= precision

    def refine(value: Any, path: str) -> Decimal:
        if isinstance(value, int) and not isinstance(value, bool):
            value = Decimal(value)
        if not isinstance(value, Decimal):
            todo = "say Decimal(str(…))" if isinstance(value, (float, str)) else ""
            raise row_refusal(path, value, expected, todo or ("the field is not optional" if value is None else ""))
        sign, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            raise row_refusal(path, value, expected, "Avro's decimals are numbers")
        kept = list(digits)
        while exponent < -scale and kept and kept[-1] == 0:
            kept.pop()
            exponent += 1
        if kept and exponent < -scale:
            raise row_refusal(path, value, expected, f"it has {-exponent} digits behind the point: round it")
        if kept == [0] * len(kept):
            return Decimal((0, (0,), -scale))
        if len(kept) + exponent + scale > precision:
            raise row_refusal(path, value, expected, "it is too large")
        return Decimal((sign, (*kept, *(0,) * (exponent + scale)), -scale))

    return ValuePlan(expected, fits, refine)
