"""Which tables somebody may know of: the one place behind all lists, maps and status streams.

A table is shown to a user whom some grant gives a right in it, be it on one key; every table to who has `admin *`, to
servers of the cluster, and to everybody while the catalog has no user. What is not shown is answered as what is not
there: by `PermissionDenied`, by its name and by its id, in the same words.

How many keys a table has, and how large it is, is shown to who may read all of it, or administers it: a grant on some
keys shows no number of the others. Offsets are shown with the table, since tokens are made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from log_tier.access.current import CALLER
from log_tier.catalog.cluster_map import ClusterMap, TableFacts
from log_tier.catalog.service import ShownMap
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.errors import Unauthenticated
from log_tier.trust.caller import Caller
from log_tier.trust.grants import Right
from log_tier.trust.proofs import why_void
from log_tier.trust.rights import NO_RIGHTS, Rights
from log_tier.trust.users import TrustState

__all__ = ["counted_for", "map_shown_to_caller", "may_count", "shown_map", "shown_rights", "shown_to"]


def shown_rights(
    trust: TrustState, caller: Caller | None, rights_of: Callable[[str], Rights] | None = None
) -> Rights | None:
    """The rights that say what is shown to a caller by these users and grants; None: everything is.

    A caller of None: nobody guards the server. `rights_of`: has the rights of a user by these grants; without it they
    are compiled, O(the user's grants).
    """
    if caller is None or caller.proof == "server" or not trust.is_closed:
        return None
    if caller.proof == "nothing":
        return NO_RIGHTS
    rights = trust.rights_of(caller.name, caller.version) if rights_of is None else rights_of(caller.name)
    return None if rights.is_superuser else rights


def shown_to(caller: Caller | None) -> Callable[[str], bool]:
    """Whether a table of a name is shown to the caller of a call, by the rights with which the call was let in."""
    if caller is None or caller.proof == "server":
        return lambda _: True
    return caller.rights.sees


def may_count(rights: Rights | None, table: str) -> bool:
    """May somebody with these rights know how many keys a table has, and how large it is? None: with all rights."""
    return rights is None or any(rights.may(right, table, b"") for right in (Right.READ, Right.ADMIN))


def counted_for(caller: Caller | None, table: str) -> bool:
    """`may_count` for the caller of a call, by the rights with which the call was let in."""
    if caller is None or caller.proof == "server" or caller.rights.is_superuser:
        return True
    return may_count(caller.rights, table)


def shown_map(cluster: ClusterMap, rights: Rights | None) -> ClusterMap:
    """The map as somebody with these rights may see it: the tables that are shown, their schemas, and all nodes; of
    snapshots, which say how many keys they have, those of tables that it may count.

    Jobs, and what is left of tables that were dropped, are for who administers the cluster. O(tables + snapshots).
    """
    if rights is None:
        return cluster
    tables = PersistentMap((table.id, table) for table in cluster.tables.values() if rights.sees(table.name))
    facts = TableFacts.of(tables)
    counted = {table.id for table in tables.values() if may_count(rights, table.name)}
    numbers = sorted({each.number for definition in facts.defined.values() for each in definition.schemas})
    return replace(
        cluster.with_facts(facts),
        schemas=PersistentMap((number, cluster.schemas[number]) for number in numbers),
        jobs={},
        dropped=(),
        snapshots=PersistentMap((name, each) for name, each in cluster.snapshots.items() if name.table in counted),
    )


def map_shown_to_caller(cluster: ClusterMap) -> ShownMap:
    """What of a map is shown to the caller of the present task's call, by the users and grants of that map.

    Raises `Unauthenticated` for a caller whose proof that map has made void: its call was let in by an older one, and
    an empty map would say that it has no right in any table. A proof that expires ends its call by itself.
    """
    caller = CALLER.get()
    if caller is not None and caller.proof != "server" and cluster.trust.is_closed:
        void = why_void(cluster.trust, caller, cluster.version)
        if void:
            raise Unauthenticated(void)
    rights = shown_rights(cluster.trust, caller)
    whom = "" if rights is None or caller is None else caller.name or "(nobody)"
    return ShownMap(whom, lambda: shown_map(cluster, rights))
