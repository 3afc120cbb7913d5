"""What the methods of `duramen.v1.Node` demand."""

from __future__ import annotations

from typing import Final

from log_tier.access.rules import MethodRules, any_user, cluster_admin, servers_only

__all__ = ["NODE_RULES"]

NODE_RULES: Final[MethodRules] = {
    # Clients that route by themselves choose replicas by it. It has table ids, offsets and sizes.
    "/duramen.v1.Node/Status": any_user,
    "/duramen.v1.Node/Copy": servers_only,
    "/duramen.v1.Node/Digest": cluster_admin,
    "/duramen.v1.Node/Voids": servers_only,
}
