"""What the methods of the log tier's services demand."""

from __future__ import annotations

from typing import Final

from log_tier.access.rules import MethodRules, any_user, servers_only

__all__ = ["LOG_RULES"]

_LOG: Final = (
    "CreateTopic",
    "AdoptTopic",
    "DeleteTopic",
    "Topics",
    "Append",
    "AppendMany",
    "Read",
    "Bounds",
    "AllBounds",
    "Trim",
    "Retain",
    "Compact",
)

LOG_RULES: Final[MethodRules] = {
    # The log is below the tables: who reads or writes it there has passed every grant.
    **{f"/duramen.v1.Log/{method}": servers_only for method in _LOG},
    # The map names all tables and nodes. It holds no user and no value.
    "/duramen.v1.Cluster/Follow": any_user,
}
