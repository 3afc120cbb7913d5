"""What the methods of `duramen.v1.Admin` demand: `admin` on the table that they are about, else on everything; and
those of `duramen.v1.Users`: `admin *`, but for what is the caller's own.
"""

from __future__ import annotations

from typing import Any, Final

from log_tier.access.demands import (
    ANY_USER,
    CLUSTER_ADMIN,
    AllDemands,
    Demand,
    KeyDemand,
    PrefixDemand,
    SpecialDemand,
)
from log_tier.access.rules import MethodRules, TableNames, any_user, cluster_admin
from log_tier.trust.grants import Right

__all__ = ["ADMIN_RULES", "USERS_RULES"]

_OF_A_TABLE: Final = frozenset(
    {"set_replicas", "take_snapshots", "trim", "compact", "stage", "swap", "rollback", "discard", "clear"}
)
"""Changes of one table. All others, and those of all tables, are of the cluster."""


def _table(request: Any, _names: TableNames) -> Demand:
    return PrefixDemand(Right.ADMIN, request.table) if request.table else CLUSTER_ADMIN


def _explain(request: Any, _names: TableNames) -> Demand:
    """It shows the key's value, and where the servers are."""
    return AllDemands((KeyDemand(Right.READ, request.table, (request.key,)), PrefixDemand(Right.ADMIN, request.table)))


def _start(request: Any, _names: TableNames) -> Demand:
    kind = request.WhichOneof("change")
    if kind == "restore_table":
        change = request.restore_table
        return AllDemands(
            (
                PrefixDemand(Right.READ, change.table),
                PrefixDemand(Right.ADMIN, change.table),
                PrefixDemand(Right.ADMIN, change.target),
            )
        )
    if kind in _OF_A_TABLE and (table := getattr(request, kind).table):
        return PrefixDemand(Right.ADMIN, table)
    return CLUSTER_ADMIN


ADMIN_RULES: Final[MethodRules] = {
    "/duramen.v1.Admin/Nodes": cluster_admin,
    "/duramen.v1.Admin/Partitions": _table,
    "/duramen.v1.Admin/Lag": _table,
    "/duramen.v1.Admin/Snapshots": _table,
    "/duramen.v1.Admin/Versions": _table,
    "/duramen.v1.Admin/Explain": _explain,
    "/duramen.v1.Admin/Verify": _table,
    "/duramen.v1.Admin/AuditData": _table,
    "/duramen.v1.Admin/NoteAudit": _table,
    "/duramen.v1.Admin/Start": _start,
    "/duramen.v1.Admin/Jobs": cluster_admin,
    "/duramen.v1.Admin/Job": cluster_admin,
    "/duramen.v1.Admin/SetRetention": _table,
    "/duramen.v1.Admin/Abort": cluster_admin,
    "/duramen.v1.Admin/Resume": cluster_admin,
    "/duramen.v1.Admin/Healing": cluster_admin,
    "/duramen.v1.Admin/Changes": cluster_admin,
}


def _own_or_all(request: Any, _names: TableNames) -> Demand:
    """Everybody's for itself, `admin *` for another user."""
    user: str = request.user
    if not user:
        return ANY_USER
    return SpecialDemand(CLUSTER_ADMIN.missing, lambda rights: rights.is_superuser or rights.user == user)


USERS_RULES: Final[MethodRules] = {
    "/duramen.v1.Users/AddUser": cluster_admin,
    "/duramen.v1.Users/RemoveUser": cluster_admin,
    "/duramen.v1.Users/ListUsers": cluster_admin,
    "/duramen.v1.Users/SetPassword": _own_or_all,
    "/duramen.v1.Users/AddToken": _own_or_all,
    "/duramen.v1.Users/RevokeToken": _own_or_all,
    "/duramen.v1.Users/Grant": cluster_admin,
    "/duramen.v1.Users/Revoke": cluster_admin,
    "/duramen.v1.Users/AddRole": cluster_admin,
    "/duramen.v1.Users/RemoveRole": cluster_admin,
    "/duramen.v1.Users/AssignRole": cluster_admin,
    "/duramen.v1.Users/UnassignRole": cluster_admin,
    "/duramen.v1.Users/SetQuota": cluster_admin,
    "/duramen.v1.Users/ListQuotas": cluster_admin,
    "/duramen.v1.Users/WhoAmI": any_user,
}
