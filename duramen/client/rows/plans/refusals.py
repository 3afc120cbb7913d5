"""The errors for a value that does not fit, and for a class that does not fit its table."""

from __future__ import annotations

from typing import Any, Final

from log_tier.model.errors import InvalidRow, InvalidSchema

__all__ = ["misfit", "row_refusal", "shown"]

_SHOWN_MAX: Final = 60
"""Characters of a value in a message."""


def row_refusal(path: str, value: Any, expected: str, todo: str = "") -> InvalidRow:
    """The error for the value of the field at the dotted `path`."""
    what = "the row" if not path else f"the field {path}"
    message = f"{what} is {shown(value)} ({type(value).__name__}), its type is {expected}"
    return InvalidRow(f"{message}: {todo}" if todo else message, field=path, expected=expected)


def misfit(path: str, why: str) -> InvalidSchema:
    """The error for a type of rows that is not the table's."""
    what = f"the field {path}: " if path else ""
    return InvalidSchema(f"this row type is not the table's: {what}{why}", field=path, reason=why)


def shown(value: Any) -> str:
    """A value in a message, shortened. A value whose `repr` fails is its type."""
    if isinstance(value, (str, bytes, list, dict)) and len(value) > _SHOWN_MAX:
        return f"{type(value).__name__} of {len(value)}"
    try:
        text = ascii(value)
    except Exception:  # noqa: BLE001 - a caller's own class
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 2]} …"
