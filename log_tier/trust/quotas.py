"""Quotas: how much of a server one user, or all users of one table, may take. Immutable."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from log_tier.model.errors import InvalidRequest
from log_tier.trust.grants import Grant
from log_tier.trust.names import check_trust_name

__all__ = ["NO_QUOTA", "QUOTA_BOUNDS", "QUOTA_MAX", "Quota", "check_quota", "check_quota_subject"]

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
    scans: int = 0
    """Scans that are open at once."""
    watches: int = 0
    """Watches that are open at once."""
    connections: int = 0
    """Connections of a user that are open at once. A table has none."""

    def __post_init__(self) -> None:
        """Raises `InvalidRequest` for what is no bound."""
        for each in fields(self):
            value = getattr(self, each.name)
            if not 0 <= value <= QUOTA_MAX:
                raise InvalidRequest(f"the quota {each.name} is {value}; it is 0 (no bound) to {QUOTA_MAX}")


QUOTA_BOUNDS: Final = tuple(each.name for each in fields(Quota))
"""The names of a quota's bounds."""

NO_QUOTA: Final = Quota()
"""No bound at all."""


def check_quota(subject: str, quota: Quota) -> None:
    """Raise `InvalidRequest` for a subject that is none, and for a table's bound of what only users have."""
    check_quota_subject(subject)
    if quota.connections and subject.startswith(_TABLE):
        raise InvalidRequest(f"{subject} has no connections that could be bounded: bound those of a user")


def check_quota_subject(subject: str) -> str:
    """Return `user:NAME`, `table:NAME` or `table:PREFIX*`; raise `InvalidRequest` for anything else."""
    if subject.startswith(_USER):
        check_trust_name(subject.removeprefix(_USER))
    elif subject.startswith(_TABLE):
        Grant.parse(f"read {subject.removeprefix(_TABLE)}")
    else:
        raise InvalidRequest(f"{subject!r} has no quota: name user:NAME, table:NAME or table:PREFIX*")
    return subject
