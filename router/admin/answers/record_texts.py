"""A record's condition and expiry in words. Pure."""

from __future__ import annotations

from log_tier.model.record import CONDITION_SHIFT, EXPIRY_SHIFT, Condition, Expiry

__all__ = ["condition_text", "expiry_text"]


def condition_text(attribute: int, version: int) -> str:
    """Such as "none", "absent", "present" or "version N"."""
    condition = Condition(attribute >> CONDITION_SHIFT & 3)
    return f"version {version}" if condition is Condition.VERSION else condition.name.lower()


def expiry_text(attribute: int, number: int) -> str:
    """Such as "none", "keep", "ttl … ms" or "at … ms"."""
    expiry = Expiry(attribute >> EXPIRY_SHIFT & 3)
    if expiry is Expiry.TTL:
        return f"ttl {number} ms"
    return f"at {number} ms" if expiry is Expiry.AT else expiry.name.lower()
