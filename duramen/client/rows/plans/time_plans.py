"""Plans of dates, times of day and instants.

What cannot come back is refused: a time zone of a time of day, an instant whose UTC is before year 1 or behind year
9999, and digits that a type in milliseconds does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Any, Final

from duramen.client.rows.plans.refusals import row_refusal
from duramen.client.rows.plans.value_plan import ValuePlan

__all__ = ["TIME_KINDS", "time_plan"]

_AWARE: Final = "a datetime with a time zone"
_NAIVE: Final = "a datetime without a time zone"


def time_plan(logical: str) -> ValuePlan:
    """The plan of a logical type of Avro for times."""
    return _PLANS[logical]


def _fits_aware(value: Any) -> bool:
    return type(value) is datetime and value.tzinfo is not None and 1 < value.year < 9999


def _aware(value: Any, path: str) -> datetime:
    made = _plain(value, path, _AWARE)
    offset = made.utcoffset()
    if offset is None:
        raise row_refusal(
            path,
            value,
            _AWARE,
            "give it one (tzinfo=UTC), or declare the field Annotated[datetime, duramen.NAIVE] if it has none",
        )
    try:
        made.astimezone(UTC)
    except OverflowError:
        raise row_refusal(path, value, _AWARE, "in UTC it is not between the years 1 and 9999") from None
    return made


def _fits_naive(value: Any) -> bool:
    return type(value) is datetime and value.tzinfo is None


def _naive(value: Any, path: str) -> datetime:
    made = _plain(value, path, _NAIVE)
    if made.tzinfo is not None:
        raise row_refusal(path, value, _NAIVE, "say .replace(tzinfo=None), or declare the field as a plain datetime")
    return made


def _plain(value: Any, path: str, expected: str) -> datetime:
    if not isinstance(value, datetime):
        todo = "say datetime.combine(…)" if isinstance(value, date) else ""
        todo = "say datetime.fromisoformat(…)" if isinstance(value, str) else todo
        raise row_refusal(path, value, expected, todo or ("the field is not optional" if value is None else ""))
    if getattr(value, "nanosecond", 0):  # of pandas
        raise row_refusal(path, value, expected, "it has nanoseconds: round it to microseconds")
    if type(value) is datetime:
        return value
    return datetime.combine(
        date(value.year, value.month, value.day),
        time(value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold),
    )


def _date(value: Any, path: str) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    todo = "say .date()" if isinstance(value, datetime) else "the field is not optional" if value is None else ""
    raise row_refusal(path, value, "a date", todo)


def _time(value: Any, path: str) -> time:
    if isinstance(value, time) and value.tzinfo is None:
        return value
    todo = "say .time()" if isinstance(value, datetime) else "the field is not optional" if value is None else ""
    if isinstance(value, time):
        todo = "say .replace(tzinfo=None)"
    raise row_refusal(path, value, "a time of day without a time zone", todo)


def _of_milliseconds(plan: ValuePlan) -> ValuePlan:
    """The same without microseconds."""
    expected = f"{plan.expected}, in milliseconds"

    def refine(value: Any, path: str) -> Any:
        made = plan.refine(value, path)
        if made.microsecond % 1000:
            raise row_refusal(path, value, expected, "it has microseconds: round it")
        return made

    return ValuePlan(
        expected,
        lambda value: plan.fits(value) and not value.microsecond % 1000,
        refine,
        f"{plan.test} and not {{v}}.microsecond % 1000",
    )


def _plan(expected: str, refine: Callable[[Any, str], Any], fits: Callable[[Any], bool], test: str) -> ValuePlan:
    return ValuePlan(expected, fits, refine, test)


_TIMESTAMP: Final = _plan(
    _AWARE, _aware, _fits_aware, "type({v}) is datetime and {v}.tzinfo is not None and 1 < {v}.year < 9999"
)
_LOCAL: Final = _plan(_NAIVE, _naive, _fits_naive, "type({v}) is datetime and {v}.tzinfo is None")
_TIME: Final = _plan(
    "a time of day without a time zone",
    _time,
    lambda value: type(value) is time and value.tzinfo is None,
    "type({v}) is time and {v}.tzinfo is None",
)

_PLANS: Final = {
    "date": _plan("a date", _date, lambda value: type(value) is date, "type({v}) is date"),
    "time-micros": _TIME,
    "time-millis": _of_milliseconds(_TIME),
    "timestamp-micros": _TIMESTAMP,
    "timestamp-millis": _of_milliseconds(_TIMESTAMP),
    "local-timestamp-micros": _LOCAL,
    "local-timestamp-millis": _of_milliseconds(_LOCAL),
}

TIME_KINDS: Final = {
    "date": "date",
    "time-micros": "time",
    "time-millis": "time",
    "timestamp-micros": "datetime",
    "timestamp-millis": "datetime",
    "local-timestamp-micros": "naive",
    "local-timestamp-millis": "naive",
}
"""The hint that each logical type of times fits."""
