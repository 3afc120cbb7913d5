"""The registry of one server: its routes, who may see what, and how new its answers are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from duramen.server.registry.registry_answer import READ_ONLY, RegistryAnswer, refused
from duramen.server.registry.registry_view import CHECKS, TREES, RegistryView
from duramen.server.registry.subjects import SubjectIndex
from duramen.server.sight.http_messages import HttpReply, HttpRequest, HttpRoute
from log_tier.access.shown_tables import shown_rights
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.concurrency.sized_work import run_sized
from log_tier.model.errors import DeadlineExceeded
from log_tier.model.log import Log
from log_tier.trust.caller import Caller

__all__ = ["SchemaRegistry"]

_REFRESH_S: Final = 5.0
"""For the catalog's end: clients of the registry wait some ten seconds."""

_NO_INDEX: Final = SubjectIndex({}, {})

_READ_ONLY: Final = (
    "this registry is read-only: a schema comes with its table. Make the table with its schema (`duramen table "
    "create NAME --schema FILE --key FIELDS`, or db.create_table(name, "
    "row=…, key=…)), and tell the producer not to register schemas (auto.register.schemas=false)"
)


class SchemaRegistry:
    """Answers for one server. Belongs to one event loop."""

    def __init__(self, catalog: Catalog, log: Log, *, refresh_s: float = _REFRESH_S) -> None:
        """`log`: of the tables. It is not read: its kind decides how its topics are named. `refresh_s`: for the
        catalog's end.
        """
        self._refresh_s = refresh_s
        self._catalog = catalog
        self._topic_of = _topic_names(log)
        self._index = _NO_INDEX
        self._derived_from: tuple[object, object] = (None, None)
        """The names and definitions of which the index was made."""
        self._refreshing = asyncio.Lock()
        self._begun = 0
        """Looks at the catalog's end that have begun."""
        self._fresh = 0
        """The last of them that was answered."""

    def routes(self) -> dict[str, HttpRoute]:
        """What answers all paths that begin with one of `TREES`, or with `CHECKS`."""
        trees = {tree: HttpRoute(self._answer, shows_status=True, is_tree=True, refused=_problem) for tree in TREES}
        checks = HttpRoute(self._answer, shows_status=True, is_tree=True, refused=_problem_of_check, methods=(b"POST",))
        return {**trees, CHECKS: checks}

    async def _answer(self, caller: Caller, request: HttpRequest) -> HttpReply:
        answer = await self._answered(caller, request)
        if answer.is_unknown:
            await self.refresh()
            answer = await self._answered(caller, request)
        return answer.reply()

    async def _answered(self, caller: Caller, request: HttpRequest) -> RegistryAnswer:
        cluster = self._catalog.map
        subjects = await self._subjects(cluster)
        rights = shown_rights(cluster.trust, caller)
        view = RegistryView(subjects, cluster.schemas, None if rights is None else rights.sees)
        if request.head.method == b"POST":
            return await asyncio.to_thread(view.checked, request.path, request.query, request.body)
        items = len(subjects.by_name) + len(cluster.schemas)
        return await run_sized(items, lambda: view.answer(request.path, request.query))

    async def _subjects(self, cluster: ClusterMap) -> SubjectIndex:
        """The subjects of a map, derived once for each change of the tables' names and definitions."""
        facts = cluster.table_facts()
        names, defined = self._derived_from
        if names is facts.names and defined is facts.defined:
            return self._index
        items = sum(len(each.schemas) + 1 for each in facts.defined.values())
        index = await run_sized(items, lambda: SubjectIndex.of(cluster, self._topic_of))
        self._index, self._derived_from = index, (facts.names, facts.defined)
        return index

    async def refresh(self) -> None:
        """Wait until the map holds what was in the catalog when this was called. Requests that come together share one
        look at the catalog's end. Raises what that raises, and `DeadlineExceeded` after 5 s.
        """
        arrived = self._begun
        try:
            async with asyncio.timeout(self._refresh_s), self._refreshing:
                if self._fresh > arrived:
                    return  # a look has begun since, and is over
                self._begun = begun = self._begun + 1
                await self._catalog.refresh()
                self._fresh = begun
        except TimeoutError:
            raise DeadlineExceeded(
                f"it is not known here, and the catalog has not said within {self._refresh_s:g} s whether it is there: "
                "ask again, or ask another server"
            ) from None


def _topic_names(log: Log) -> Callable[[TableEntry], str]:
    """How the readers of a log know the topics of tables: in Kafka with our namespace, but for topics of others."""
    # Not by its class: what is imported of Kafka needs an extra, which most servers have not.
    topic_name = getattr(getattr(log, "address", None), "topic_name", str)
    return lambda entry: entry.over or topic_name(entry.name)


def _problem(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> HttpReply:
    """An error of HTTP as one of the registry's."""
    if status == 405:
        return refused(READ_ONLY, _READ_ONLY, status=status).reply(headers)
    return refused(status * 100 + 1, message).reply(headers)


def _problem_of_check(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> HttpReply:
    """The same for a path to which a schema is sent."""
    if status == 405:
        return refused(405, "a schema is sent here by POST, to be compared with those of a subject").reply(headers)
    return _problem(status, message, headers)
