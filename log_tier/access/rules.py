"""The rule of a method: what a request of it demands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from log_tier.access.demands import ANY_USER, CLUSTER_ADMIN, SERVERS_ONLY, Demand
from log_tier.model.identifiers import TableId

__all__ = ["MethodRules", "Rule", "TableNames", "any_user", "cluster_admin", "servers_only"]

TableNames = Callable[[TableId], str]
"""The name of a table by its id, for a caller. Raises `TableNotFound`; `PermissionDenied` for one that is not shown."""

Rule = Callable[[Any, TableNames], Demand]
"""What a request demands. Raises what the request itself would be refused with, such as `TableNotFound`."""

MethodRules = Mapping[str, Rule]
"""MethodRules by the full name of their method: `/duramen.v1.KV/Put`."""


def _always(demand: Demand) -> Rule:
    return lambda _request, _names: demand


any_user: Final = _always(ANY_USER)
cluster_admin: Final = _always(CLUSTER_ADMIN)
servers_only: Final = _always(SERVERS_ONLY)
