"""Subjects and numbers of schemas, derived from the map's tables. Immutable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Self

from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.rows.definition import TableDefinition
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema

__all__ = ["VALUE_SUFFIX", "Subject", "SubjectIndex"]

VALUE_SUFFIX: Final = "-value"
"""Behind a topic's name, as Confluent's serializers name the schema of its values by default."""


class Subject(NamedTuple):
    """A table of rows, as readers of its topic know it."""

    name: str
    table: str
    schemas: tuple[NumberedSchema, ...]
    """Version 1 is the first one."""
    key: tuple[KeyField, ...] = ()
    """Of the table's fields, those of its key."""


class SubjectIndex(NamedTuple):
    """All subjects of a map, by name and by the numbers of their schemas."""

    by_name: Mapping[str, Subject]
    """In the order of the names."""
    by_number: Mapping[int, tuple[Subject, ...]]

    @classmethod
    def of(cls, cluster: ClusterMap, topic_of: Callable[[TableEntry], str]) -> Self:
        """`topic_of`: the name of a table's topic, as its readers know it. O(tables of rows and their schemas)."""
        entries = [cluster.table(table) for table in cluster.table_facts().defined]
        found = [
            Subject(topic_of(entry) + VALUE_SUFFIX, entry.name, entry.definition.schemas, _key_of(entry.definition))
            for entry in entries
            if entry.definition is not None and entry.definition.schemas
        ]
        found.sort()
        numbers: dict[int, list[Subject]] = {}
        for subject in found:
            for each in subject.schemas:
                numbers.setdefault(each.number, []).append(subject)
        by_number = {number: tuple(subjects) for number, subjects in numbers.items()}
        return cls({subject.name: subject for subject in found}, by_number)


def _key_of(definition: TableDefinition) -> tuple[KeyField, ...]:
    return definition.key if isinstance(definition.key, tuple) else ()
