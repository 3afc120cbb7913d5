"""The one place that decides, behind all endpoints: `Gate.decide(caller, demand)`.

The gate is open while the catalog holds no user, and closed from the first one on. It follows the catalog's maps: a
caller's rights are compiled once for each version that changed users, and a registered callback is called in the same
turn in which the map of a revocation comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from log_tier.access.demands import Demand
from log_tier.access.shown_tables import shown_rights
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.errors import PermissionDenied, TableNotFound, Unauthenticated
from log_tier.model.identifiers import Offset, TableId
from log_tier.rows.json_rows.json_table import KEYED_TEXT_MAX, JsonTable
from log_tier.trust.caller import Caller, Proof
from log_tier.trust.proofs import why_void
from log_tier.trust.rights import NO_RIGHTS, Rights
from log_tier.trust.users import TrustState

__all__ = ["NOBODY", "Gate"]

NOBODY: Final = Caller("", "nothing", NO_RIGHTS)
"""A caller that proved nothing."""


# A connection of the Redis protocol has one caller, and so has each token of gRPC.
_GOOD_MAX: Final = 50_000


class _Good(NamedTuple):
    """A caller whose proof was good when the users changed last."""

    caller: Caller
    rights: Rights
    expires_ms: int
    """0: never."""


class Gate:
    """Decides by the newest map that `follow` was given. Belongs to one event loop.

    Invariant: every entry of `_rights` and of `_good` was made of `_trust`.
    """

    def __init__(self, newest: Callable[[], ClusterMap] | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """`newest`: the newest map of this process, which a decision looks at, so that it is never by an older one."""
        self._newest = newest
        self._clock = clock
        self._trust = TrustState()
        self._version = Offset(-1)
        self._tables: PersistentMap[TableId, TableEntry] = PersistentMap()
        self._named: Callable[[str], TableEntry | None] = lambda _name: None
        self._dropped: dict[TableId, str] = {}
        """Names of the last tables that were dropped since this process follows."""
        self._seen_dropped: tuple[TableId, ...] = ()
        self._rights: dict[str, Rights] = {}
        self._good: dict[int, _Good] = {}
        """Callers whose proofs were looked at since the last change of users, by their `id`; each is held."""
        self._changed: list[Callable[[], None]] = []

    @property
    def is_closed(self) -> bool:
        """Does the catalog hold a user?"""
        self._catch_up()
        return self._trust.is_closed

    @property
    def version(self) -> Offset:
        """The version of the catalog by which it decides."""
        return self._version

    @property
    def trust(self) -> TrustState:
        """The users and roles by which it decides."""
        return self._trust

    def table_name(self, table: TableId) -> str:
        """The name of a table, by the map of the decisions. Raises `TableNotFound`."""
        self._catch_up()
        entry = self._tables.get(table)
        if entry is None:
            raise TableNotFound(f"no table has the id {table} here: it was dropped, or never was", table=table)
        return entry.name

    def shown_name(self, caller: Caller, table: TableId) -> str:
        """The name of a table that is shown to the caller.

        Raises `PermissionDenied` for one that is not shown, and, in the same words, for one that is not there. Who
        administers the cluster, and who was shown a table until it was dropped, gets `TableNotFound` for the latter.
        """
        self._catch_up()
        entry = self._tables.get(table)
        name = self._dropped.get(table) if entry is None else entry.name
        rights = shown_rights(self._trust, caller, self._rights_of)
        if rights is not None and (name is None or not rights.sees(name)):
            raise PermissionDenied(
                f"{caller} is shown no table with the id {table} at version {self._version} of the catalog: it is not "
                "there, or no grant is about it"
            )
        return self.table_name(table)

    def keys_in_rows(self, table: str, rows: Sequence[bytes]) -> list[bytes]:
        """The texts of the keys that rows have inside, by the table's definition; empty: there is none, or the rows
        have more than `KEYED_TEXT_MAX` bytes together.
        """
        entry = self._named(table)
        if entry is None or entry.definition is None or sum(map(len, rows)) > KEYED_TEXT_MAX:
            return []
        form = JsonTable(entry.definition)
        return [form.key_text(key) if (key := form.key_in(row)) else b"" for row in rows]

    def key_text(self, table: str, prefix: bytes) -> str:
        """What a table's keys begin with, as their fields: `["UA",…`; empty: they have none. `prefix`: as keys are
        stored, or of their texts. Some 10 µs.
        """
        self._catch_up()
        entry = self._named(table)
        form = None if entry is None or entry.definition is None else JsonTable(entry.definition)
        if form is None or not form.fields:
            return ""
        return prefix.decode(errors="ignore") if prefix.startswith(b"[") else form.beginning_text(prefix)

    def follow(self, cluster: ClusterMap) -> None:
        """Decide by this map from now on, and call what is registered where its users differ. An older one is void."""
        if cluster.version <= self._version:
            return
        self._version = cluster.version
        if cluster.dropped is not self._seen_dropped and cluster.dropped != self._seen_dropped:
            self._keep_dropped(cluster.dropped)
        self._tables, self._named = cluster.tables, cluster.named
        before, self._trust = self._trust, cluster.trust
        if before is self._trust or before == self._trust:
            return
        self._rights.clear()
        self._good.clear()
        for changed in tuple(self._changed):
            changed()

    def _keep_dropped(self, dropped: tuple[TableId, ...]) -> None:
        """Remember the names of tables that the catalog remembers as dropped, as far as they were known here."""
        self._seen_dropped, before = dropped, self._dropped
        known = ((each, before.get(each) or _name_of(self._tables.get(each))) for each in dropped)
        self._dropped = {each: name for each, name in known if name}

    def on_change(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each change of users, roles or grants. Returns what ends that; idempotent."""
        self._changed.append(changed)

        def leave() -> None:
            if changed in self._changed:
                self._changed.remove(changed)

        return leave

    def caller(self, name: str, proof: Proof, *, credential: str = "") -> Caller:
        """Somebody who proved this, with the rights of now. A server has none of a user's."""
        rights = NO_RIGHTS if proof in ("nothing", "server") else self._rights_of(name)
        return Caller(name, proof, rights, credential)

    def decide(self, caller: Caller, demand: Demand, what: str = "do this") -> Offset:
        """The version by which the call is allowed. The rights are those of now, not those of the caller's proof.

        Raises `Unauthenticated` for one who proved nothing or whose proof is void by now (the user is gone, the token
        expired or was revoked, the password is another one), and `PermissionDenied`, which says who may not do what (in
        the words of `what`), and which grant is missing. Under 2 µs, whatever the number of grants; for a demand on n
        keys, n times as much.
        """
        self._catch_up()
        good = self._good.get(id(caller))
        if good is None or (good.expires_ms and good.expires_ms <= self._clock.wall_ms()):
            if not self._trust.is_closed or caller.proof == "server":
                return self._version
            good = self._examine(caller)
        if missing := demand.lacks(good.rights):
            raise PermissionDenied(
                f"{caller} may not {what} at version {self._version} of the catalog: what is missing is '{missing}'"
            )
        return self._version

    def _examine(self, caller: Caller) -> _Good:
        """A caller whose proof is good, with its rights. Raises `Unauthenticated`."""
        if void := why_void(self._trust, caller, self._version, self._clock.wall_ms()):
            raise Unauthenticated(void)
        if len(self._good) >= _GOOD_MAX:
            self._good.clear()
        good = self._good[id(caller)] = _Good(caller, self._rights_of(caller.name), self.expires_ms(caller))
        return good

    def expires_ms(self, caller: Caller) -> int:
        """When the caller's proof expires, in ms since 1970; 0: never."""
        user = self._trust.users.get(caller.name)
        if caller.proof != "token" or user is None:
            return 0
        token = user.token(caller.credential)
        return 0 if token is None else token.expires_ms

    def _catch_up(self) -> None:
        if self._newest is not None and (cluster := self._newest()).version != self._version:
            self.follow(cluster)

    def _rights_of(self, name: str) -> Rights:
        known = self._rights.get(name)
        if known is None:
            known = self._rights[name] = self._trust.rights_of(name, self._version)
        return known


def _name_of(entry: TableEntry | None) -> str:
    return "" if entry is None else entry.name
