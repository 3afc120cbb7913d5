"""A node's status as one user may see it: the replicas of the tables that are shown to it, and no task. Keys and bytes
are 0 where it may not count them.
"""

from __future__ import annotations

from typing import Final

from log_tier.access.shown_tables import may_count, shown_rights
from log_tier.catalog.catalog import Maps
from log_tier.model.identifiers import table_id_from_bytes
from log_tier.trust.caller import Caller
from log_tier.trust.rights import Rights
from log_tier.trust.users import TrustState
from serving_tier.proto import node_pb2

__all__ = ["ShownStatus"]

_Name = tuple[bytes, int]
"""A table's id and a partition."""

_NOT_YET: Final = TrustState()


class ShownStatus:
    """What of a feed's messages is shown to one caller, as users and grants change. Belongs to one event loop.

    Invariant: `_sent` has the replicas that were reported, and not that they are gone, or `_had_all` holds.
    """

    def __init__(self, maps: Maps, caller: Caller | None) -> None:
        self._maps = maps
        self._caller = caller
        self._trust = _NOT_YET
        self._rights: Rights | None = None
        self._sent: set[_Name] = set()
        self._is_begun = False
        self._had_all = False
        """Was every replica reported? Then `_sent` does not say of which."""

    def has_changed(self) -> bool:
        """Have users or grants changed since the last message, so that the whole status must follow? O(1) if not."""
        trust = self._maps.map.trust
        if trust is self._trust:
            return False
        before, begun = self._rights, self._is_begun
        self._trust, self._rights, self._is_begun = trust, shown_rights(trust, self._caller), True
        return begun and not (before is None and self._rights is None)

    def of(self, message: node_pb2.NodeStatus, *, whole: bool = False) -> node_pb2.NodeStatus:
        """The message, or what of it is shown. O(its replicas). `whole`: it has every replica of the node, and those
        that it shows no longer are gone.
        """
        rights = self._rights
        if rights is None:
            self._had_all = True
            return message
        shown = node_pb2.NodeStatus()
        shown.CopyFrom(message)
        shown.ClearField("tasks")
        del shown.replicas[:], shown.gone[:]
        replicas = [each for each in message.replicas if self._shows(rights, each.table_id)]
        names = {(each.table_id, each.partition) for each in replicas}
        gone = {(each.table_id, each.partition) for each in message.gone} & self._sent
        if whole:
            reported = {(each.table_id, each.partition) for each in message.replicas} if self._had_all else self._sent
            gone |= reported - names
            self._had_all = False
        self._sent = (self._sent - gone) | names
        shown.replicas.extend(replicas)
        for each in shown.replicas:
            if not self._counts(rights, each.table_id):
                each.keys = each.bytes = each.void = 0
        shown.gone.extend(node_pb2.ReplicaName(table_id=table, partition=number) for table, number in sorted(gone))
        return shown

    def _counts(self, rights: Rights, table_id: bytes) -> bool:
        entry = self._maps.map.tables.get(table_id_from_bytes(table_id))
        return entry is not None and may_count(rights, entry.name)

    def _shows(self, rights: Rights, table_id: bytes) -> bool:
        entry = self._maps.map.tables.get(table_id_from_bytes(table_id))
        return entry is not None and rights.sees(entry.name)
