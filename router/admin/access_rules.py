"""What the methods of `duramen.v1.Admin` demand: `admin` on the table that they are about, else on everything."""

from __future__ import annotations

from typing import Any, Final

from log_tier.access.demands import CLUSTER_ADMIN, AllDemands, Demand, KeyDemand, PrefixDemand
from log_tier.access.rules import MethodRules, TableNames, cluster_admin
from log_tier.trust.grants import Right

__all__ = ["ADMIN_RULES"]

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
    "/duramen.v1.Admin/Start": _start,
    "/duramen.v1.Admin/Jobs": cluster_admin,
    "/duramen.v1.Admin/Job": cluster_admin,
    "/duramen.v1.Admin/SetRetention": _table,
    "/duramen.v1.Admin/Abort": cluster_admin,
    "/duramen.v1.Admin/Resume": cluster_admin,
}
