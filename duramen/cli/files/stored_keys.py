"""The fields of keys in the files of a log, by the definitions that the catalog's files next to them hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from log_tier.catalog.catalog import CATALOG_TOPIC
from log_tier.catalog.commands import CreateTable, parse_command
from log_tier.embedded.segments.inspection import SegmentStart, StoredBatch, inspect_segment, segment_files
from log_tier.embedded.storage import names
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import TableId
from log_tier.rows.definition import TableDefinition
from log_tier.rows.json_rows.json_table import JsonTable

__all__ = ["StoredKeys"]


class StoredKeys:
    """Of one log or several. A catalog is read when a key of its log is shown first."""

    def __init__(self) -> None:
        self._forms: dict[Path, dict[TableId, JsonTable]] = {}

    def text(self, segment: Path, key: bytes) -> str:
        """A key of a segment as its fields, `["UA",1545]`; empty: it has none, or the catalog's files are not there."""
        topic = segment.absolute().parent.parent
        table = names.topic_name(topic.name)
        if table is None or not key:
            return ""
        if topic.parent not in self._forms:
            self._forms[topic.parent] = _forms_in(topic.parent)
        form = self._forms[topic.parent].get(table)
        return "" if form is None else form.beginning_text(key)


def _forms_in(topics: Path) -> dict[TableId, JsonTable]:
    """The tables with a definition, by the catalog among these topics. The fields of a key do not change later."""
    found = {}
    with suppress(OSError):
        for created in _created_in(topics):
            with suppress(DuramenError):  # of a later Duramen
                found[created.table] = JsonTable(TableDefinition.from_document(created.definition))
    return found


def _created_in(topics: Path) -> Iterator[CreateTable]:
    for file in segment_files(topics):
        findings = inspect_segment(file)
        start = next(findings)
        if not isinstance(start, SegmentStart) or start.table != CATALOG_TOPIC:
            continue
        for finding in findings:
            for record in finding.records() if isinstance(finding, StoredBatch) else ():
                with suppress(DuramenError):
                    _, command = parse_command(record.key, record.value or b"")
                    if isinstance(command, CreateTable) and command.definition:
                        yield command
