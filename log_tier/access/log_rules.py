"""What the methods of the log tier's services demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from log_tier.access.demands import SERVERS_ONLY, AllDemands, BatchDemand, Demand, KeyDemand, PrefixDemand
from log_tier.access.rules import MethodRules, Rule, TableNames, any_user, servers_only
from log_tier.model.errors import TableNotFound
from log_tier.model.identifiers import table_id_from_bytes
from log_tier.trust.grants import Right

__all__ = ["LOG_RULES"]

_UPKEEP: Final = ("CreateTopic", "AdoptTopic", "DeleteTopic", "Topics", "Trim", "Retain", "Compact")


def _of_table(demanded: Callable[[str, Any], Demand]) -> Rule:
    """What a call on one topic demands by its table's name. A topic that is no table's is for servers alone."""

    def rule(request: Any, names: TableNames) -> Demand:
        try:
            return demanded(names(table_id_from_bytes(request.topic_id)), request)
        except TableNotFound:
            return SERVERS_ONLY

    return rule


_reads: Final = _of_table(lambda table, _request: PrefixDemand(Right.READ, table))
_sees: Final = _of_table(lambda table, _request: KeyDemand(Right.READ, table, ()))
_appends: Final = _of_table(lambda table, request: BatchDemand(table, request.batch))


def _appends_many(request: Any, names: TableNames) -> Demand:
    return AllDemands(tuple(_appends(part, names) for part in request.parts)) if request.parts else SERVERS_ONLY


LOG_RULES: Final[MethodRules] = {
    **{f"/duramen.v1.Log/{method}": servers_only for method in _UPKEEP},
    # A table's log shows all of its keys, as a watch does, and takes what a write of batches takes.
    "/duramen.v1.Log/Read": _reads,
    "/duramen.v1.Log/Append": _appends,
    "/duramen.v1.Log/AppendMany": _appends_many,
    # Offsets, as tokens have them.
    "/duramen.v1.Log/Bounds": _sees,
    "/duramen.v1.Log/AllBounds": _sees,
    # The map names all nodes, and the tables that are shown to the caller. It holds no user and no value.
    "/duramen.v1.Cluster/Follow": any_user,
    # The server's own facts, and the partitions of the tables that are shown to the caller.
    "/duramen.v1.Cluster/Status": any_user,
    "/duramen.v1.Cluster/SlowCalls": any_user,
}
