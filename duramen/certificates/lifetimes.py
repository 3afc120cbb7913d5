"""How long certificates are valid."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from log_tier.model.errors import InvalidRequest

__all__ = [
    "AUTHORITY_DAYS",
    "AUTHORITY_NAME",
    "CLOCK_SKEW",
    "DAYS_MAX",
    "DAYS_WARNED",
    "LEAF_DAYS",
    "lifetime_of_days",
]

AUTHORITY_NAME: Final = "Duramen CA"
"""The name of a CA for which nobody chose one."""
AUTHORITY_DAYS: Final = 3650
"""The change of a CA reaches every client, so it is rare."""
LEAF_DAYS: Final = 365
"""Of a server or a user. What is done once a year is a habit; what is done every third year is forgotten. It bounds the
use of a stolen key, and is below the 825 days that Apple's systems accept of a server.
"""
DAYS_MAX: Final = 36_500
"""A hundred years."""
DAYS_WARNED: Final = 30
"""Time to reissue a certificate and to bring it to its machine."""
CLOCK_SKEW: Final = timedelta(minutes=5)
"""A certificate is valid from so long before it is made: the clocks of other machines may be behind."""


def lifetime_of_days(days: int) -> timedelta:
    """The lifetime that somebody asks for. Raises `InvalidRequest`."""
    if not 1 <= days <= DAYS_MAX:
        raise InvalidRequest(f"a certificate is valid for 1 to {DAYS_MAX:,} days, not {days}")
    return timedelta(days=days)
