"""The map as JSON, for followers over a wire and for people: encoder and decoder.

A follower may be older than the server that it follows, so the decoder ignores fields that it does not know. What an
older follower must not ignore gets a new format version, which the encoder writes only for a map that has such a thing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any, Final, TypeVar

from log_tier.catalog.cluster_map import Assignment, ClusterMap, NodeEntry, SnapshotEntry, TableEntry, VersionEntry
from log_tier.catalog.jobs import Job, JobTasks, Task
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.errors import UnknownFormat
from log_tier.model.identifiers import Offset
from log_tier.model.partitioner import is_partitioner
from log_tier.rows.definition import TableDefinition
from log_tier.tally.audit_note import note_from, note_row

__all__ = ["MapTexts", "map_from_json", "map_to_json"]

_FORMAT_VERSION: Final = 1

_WITH_DEFINITIONS: Final = 2
"""The format of a map in which a table has a definition: who does not know them would write and fold it as bytes."""

# Texts of definitions whose values are kept: a follower reads the map at each change, and few of them change.
_DEFINITIONS_KEPT: Final = 1024

_MAPS_KEPT: Final = 4
"""The newest, and those that a follower behind it may yet get."""

_TO_TEXT: Final = json.JSONEncoder(separators=(",", ":")).encode

_FIELDS: Final = {each: fields(each) for each in (NodeEntry, TableEntry, VersionEntry, SnapshotEntry, Job, Task)}
_NAMES: Final[dict[type[Any], frozenset[str]]] = {
    kind: frozenset(each.name for each in known) for kind, known in _FIELDS.items()
}

_Entry = TypeVar("_Entry")


class MapTexts:
    """Encodes one map after the other, each entry once: between two maps of thousands of tables one has changed, and
    the texts of the others are kept. Entries are immutable, so a text is that of its object.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[object, str]] = {}
        """By the identity of an entry of the last map: the entry, which so keeps its identity, and its text."""

    def encode(self, cluster: ClusterMap) -> bytes:
        """A map without its decisions, which only the fold needs, and without its users. O(size of the map)."""
        kept: dict[int, tuple[object, str]] = {}

        def texts(entries: Iterable[_Entry], row: Callable[[_Entry], dict[str, Any]]) -> str:
            found: list[str] = []
            for entry in entries:
                known = kept[id(entry)] = self._kept.get(id(entry)) or (entry, _TO_TEXT(row(entry)))
                found.append(known[1])
            return f"[{','.join(found)}]"

        has_definitions = bool(cluster.schemas or cluster.table_facts().defined)
        parts = {
            "v": str(_WITH_DEFINITIONS if has_definitions else _FORMAT_VERSION),
            "version": str(int(cluster.version)),
            "nodes": _TO_TEXT([_node_row(node) for node in cluster.nodes.values()]),
            "tables": texts(cluster.tables.values(), usual_left_out),
            "jobs": texts(cluster.jobs.values(), _job_row),
            "dropped": _TO_TEXT(cluster.dropped),
            "snapshots": texts((each for those in cluster.snapshots.values() for each in those), usual_left_out),
        }
        if cluster.by_hand:  # it came later
            parts["by_hand"] = _TO_TEXT(cluster.by_hand)
        if has_definitions:
            parts["schemas"] = _TO_TEXT(list(cluster.schemas.items()))
        self._kept = kept
        return ("{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}").encode()


def map_to_json(cluster: ClusterMap) -> bytes:
    """One map, encoded from nothing."""
    return MapTexts().encode(cluster)


@lru_cache(_MAPS_KEPT)
def map_from_json(text: bytes) -> ClusterMap:
    """Read a map. Raises `UnknownFormat` for one of another version, and for what is no map.

    The followers of a process get the same text one after the other: they share one map, and it is read once.
    """
    try:
        document: dict[str, Any] = json.loads(text)
        if document.get("v") not in (_FORMAT_VERSION, _WITH_DEFINITIONS):
            raise UnknownFormat(
                f"the cluster map has format {document.get('v')}, this process reads up to {_WITH_DEFINITIONS}: update "
                "it"
            )
        return _map(document)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UnknownFormat(
            f"the cluster map cannot be read ({error!r}): update this process to its server's version"
        ) from error


def _map(document: Mapping[str, Any]) -> ClusterMap:
    snapshots: dict[Any, tuple[SnapshotEntry, ...]] = {}
    for row in document["snapshots"]:
        entry = _entry(SnapshotEntry, row)
        place = entry.partition_id
        snapshots[place] = (*snapshots.get(place, ()), entry)
    schemas = dict(document.get("schemas", ()))
    return ClusterMap(
        version=Offset(document["version"]),
        nodes={node["id"]: _entry(NodeEntry, node) for node in document["nodes"]},
        tables=PersistentMap((table["id"], _table(table, schemas)) for table in document["tables"]),
        jobs={job["id"]: _job(job) for job in document["jobs"]},
        snapshots=PersistentMap(snapshots),
        dropped=tuple(document["dropped"]),
        schemas=PersistentMap(schemas),
        by_hand=tuple(document.get("by_hand", ())),
    )


def usual_left_out(entry: TableEntry | SnapshotEntry) -> dict[str, Any]:
    """The entry's fields without those that have their default, which were added later."""
    document = _row(entry)
    for each in _FIELDS[type(entry)]:
        if each.default is not MISSING and document[each.name] == each.default:
            del document[each.name]
    if isinstance(entry, TableEntry) and entry.definition is not None:
        numbers = [each.number for each in entry.definition.schemas]
        document["definition"] = {**entry.definition.to_document(), "schemas": numbers}
    if "versions" in document:
        document["versions"] = [_row(version) for version in document["versions"]]
    if "audits" in document:
        document["audits"] = [note_row(note) for note in document["audits"]]
    return document


def _row(entry: Any) -> dict[str, Any]:
    """Its fields by their names. `dataclasses.asdict` copies what they hold as well: ten times as dear."""
    return {each.name: getattr(entry, each.name) for each in _FIELDS[type(entry)]}


def _node_row(node: NodeEntry) -> dict[str, Any]:
    document = _row(node)
    if not node.peer_address:  # it came later
        del document["peer_address"]
    return document


def _entry(kind: type[_Entry], row: Mapping[str, Any], **read: Any) -> _Entry:
    """An entry of the fields that this process knows; `read`: those that are more than JSON's values."""
    known = _NAMES[kind]
    if row.keys() <= known:
        return kind(**{**row, **read})
    return kind(**{**{name: value for name, value in row.items() if name in known}, **read})


def _table(row: dict[str, Any], schemas: Mapping[int, str]) -> TableEntry:
    if not is_partitioner(row.get("partitioner", "slot")):
        raise UnknownFormat(
            f"table {row['name']} has the partitioner {row['partitioner']!r}, which this process does not know: update "
            "it"
        )
    assignments = tuple(tuple(Assignment(*replica[:2]) for replica in assigned) for assigned in row["assignments"])
    versions = tuple(_version(version) for version in row.get("versions", ()))
    starts = tuple(row.get("starts", ()))
    read: dict[str, Any] = {}
    if "definition" in row:
        numbers = row["definition"]["schemas"]
        if len(set(numbers)) < len(numbers):  # a text for each would be hundreds of times as much
            raise ValueError(f"table {row['name']} has a schema twice")
        texts = [[number, schemas[number]] for number in numbers]
        read["definition"] = _definition(json.dumps({**row["definition"], "schemas": texts}))
    read["audits"] = tuple(note_from(note) for note in row.get("audits", ()))
    return _entry(TableEntry, row, assignments=assignments, starts=starts, versions=versions, **read)


@lru_cache(_DEFINITIONS_KEPT)
def _definition(text: str) -> TableDefinition:
    return TableDefinition.from_document(json.loads(text))


def _version(row: dict[str, Any]) -> VersionEntry:
    return _entry(VersionEntry, row, holders=tuple(tuple(nodes) for nodes in row["holders"]))


def _job_row(job: Job) -> dict[str, Any]:
    return {**_row(job), "tasks": [_row(task) for task in job.tasks]}


def _job(row: dict[str, Any]) -> Job:
    return _entry(Job, row, tasks=JobTasks(_entry(Task, task) for task in row["tasks"]))
