"""Quotas: how much of a server one user, or all users of one table, may take. Immutable."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from log_tier.model.errors import InvalidRequest
from log_tier.trust.grants import Grant
from log_tier.trust.names import check_trust_name

__all__ = ["NO_QUOTA", "QUOTA_MAX", "Quota", "check_quota_subject"]

QUOTA_MAX: Final = 1 << 53
"""Above every server, and exact in JSON."""

_USER: Final = "user:"
_TABLE: Final = "table:"


@dataclass(frozen=True, slots=True)
class Quota:
    """What one server gives each second, or at once. 0: no bound. Every server counts for itself."""

    calls_s: int = 0
    """Calls each second."""
    bytes_in_s: int = 0
    """Bytes of requests each second."""
    bytes_out_s: int = 0
    """Bytes of replies each second."""
    streams: int = 0
    """Scans and watches that are open at once."""

    def __post_init__(self) -> None:
        """Raises `InvalidRequest` for what is no bound."""
        for each in fields(self):
            value = getattr(self, each.name)
            if not 0 <= value <= QUOTA_MAX:
                raise InvalidRequest(f"the quota {each.name} is {value}; it is 0 (no bound) to {QUOTA_MAX}")


NO_QUOTA: Final = Quota()
"""No bound at all."""


def check_quota_subject(subject: str) -> str:
    """Return `user:NAME`, `table:NAME` or `table:PREFIX*`; raise `InvalidRequest` for anything else."""
    if subject.startswith(_USER):
        check_trust_name(subject.removeprefix(_USER))
    elif subject.startswith(_TABLE):
        Grant.parse(f"read {subject.removeprefix(_TABLE)}")
    else:
        raise InvalidRequest(f"{subject!r} has no quota: name user:NAME, table:NAME or table:PREFIX*")
    return subject
