"""The definition of a table's keys and values behind a barrier that brings one."""

from __future__ import annotations

import json

from log_tier.rows.definition import TableDefinition

__all__ = ["defined_behind"]


def defined_behind(text: str, known: TableDefinition | None) -> TableDefinition | None:
    """The definition from a barrier on which brings `text`, in a table that had `known` before it; None where what it
    brings is none of this table.

    One that comes late, with a number that was there already, changes nothing. Raises `UnknownFormat` for one of a
    newer format, and for what is no definition.
    """
    found = TableDefinition.from_document(json.loads(text))
    if known is None or not (found.continues(known) or known.continues(found)):
        return None
    return found if found.number > known.number else known
