"""What the methods of `duramen.v1.Node` demand."""

from __future__ import annotations

from typing import Any, Final

from log_tier.access.demands import Demand, PrefixDemand
from log_tier.access.rules import MethodRules, TableNames, any_user, cluster_admin
from log_tier.model.identifiers import table_id_from_bytes
from log_tier.trust.grants import Right

__all__ = ["NODE_RULES"]


def _reads_table(request: Any, names: TableNames) -> Demand:
    return PrefixDemand(Right.READ, names(table_id_from_bytes(request.table_id)))


NODE_RULES: Final[MethodRules] = {
    # Clients that route by themselves choose replicas by it. It has ids, offsets and sizes of tables that are shown.
    "/duramen.v1.Node/Status": any_user,
    # A copy has all keys of its partition, and which records were void says what conditions met.
    "/duramen.v1.Node/Copy": _reads_table,
    "/duramen.v1.Node/Digest": cluster_admin,
    "/duramen.v1.Node/Tally": cluster_admin,
    "/duramen.v1.Node/Voids": _reads_table,
}
