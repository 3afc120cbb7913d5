"""Why a command of the catalog does not take effect."""

from __future__ import annotations

__all__ = ["Refusal"]


class Refusal(Exception):
    """The fold refuses a command. The exception never leaves the fold, which records it as a decision."""
