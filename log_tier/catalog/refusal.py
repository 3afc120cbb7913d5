"""Why a command of the catalog does not take effect."""

from __future__ import annotations

__all__ = ["Refusal"]


class Refusal(Exception):
    """It never leaves the fold, which makes a decision of it."""
