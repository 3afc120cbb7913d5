"""What an error of one node says about the others. Pure."""

from __future__ import annotations

from log_tier.model.errors import Damaged, DuramenError, OffsetTrimmed, Unavailable, VersionMissing

__all__ = ["may_pass", "worth_failover"]


def worth_failover(error: DuramenError) -> bool:
    """Could another replica answer what this one did not?

    What is wrong with the request is wrong everywhere, and a node asks the catalog's end before it says that a table is
    gone, and marks a version that has ended for good. The rest is that node's trouble: it is away, too slow, too far
    behind, damaged, or has a bug.
    """
    if isinstance(error, VersionMissing) and error.fields.get("ended"):
        return False
    return isinstance(error, (Unavailable, Damaged, OffsetTrimmed)) or type(error) is DuramenError


def may_pass(error: DuramenError) -> bool:
    """Could the same replica answer soon after? Else, when all have said so, that is the answer."""
    return error.retryable
