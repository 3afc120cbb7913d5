"""The versions in which a table's definition is written: each says what the ones before it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from log_tier.model.errors import UnknownFormat
from log_tier.model.kept_history import KeptHistory
from log_tier.rows.table_index import IndexHistory, TableIndex
from log_tier.rows.text_index import TextIndex

__all__ = ["check_format", "format_of"]

_FORMAT_VERSION: Final = 1
_OF_INDEXES: Final = 2
_OF_HISTORY: Final = 3
"""Of one whose indexes are not those with which the table began."""
_OF_WHERE: Final = 4
"""Of one that has, or began with, an index of some rows only."""
_OF_KEPT: Final = 5
"""Of one whose table keeps what its keys had before."""
_OF_UNIQUE: Final = 6
"""Of one that has, or began with, an index whose values one row has alone. It may keep what keys had before."""
_OF_TEXTS: Final = 7
"""Of one that has a text index. It may have unique indexes, and keep what keys had before."""

_FIELDS: Final = frozenset({"v", "number", "key", "value", "schemas", "partition_by"})
_FIELDS_OF: Final = {
    _FORMAT_VERSION: _FIELDS,
    _OF_INDEXES: _FIELDS | {"indexes"},
    _OF_HISTORY: _FIELDS | {"indexes", "index_history"},
    _OF_WHERE: _FIELDS | {"indexes", "index_history"},
    _OF_KEPT: _FIELDS | {"indexes", "index_history", "keeps"},
    _OF_UNIQUE: _FIELDS | {"indexes", "index_history", "keeps"},
    _OF_TEXTS: _FIELDS | {"indexes", "index_history", "keeps", "texts"},
}


def format_of(
    indexes: Sequence[TableIndex], history: IndexHistory, keeps: KeptHistory | None, texts: Sequence[TextIndex]
) -> int:
    """The version in which a definition is written."""
    if texts:
        return _OF_TEXTS
    known = (*indexes, *history.first)
    if any(each.unique for each in known):
        return _OF_UNIQUE
    if keeps is not None:
        return _OF_KEPT
    if any(each.where for each in known):
        return _OF_WHERE
    if history.changes:
        return _OF_HISTORY
    return _OF_INDEXES if indexes else _FORMAT_VERSION


def check_format(document: Mapping[str, Any]) -> None:
    """Raise `UnknownFormat` for a newer version, and for a field that the version does not have: the fold must not pass
    over it. `KeyError`, `TypeError` for a document that does not say what its version does.
    """
    version = document["v"]
    unknown = sorted(document.keys() - _FIELDS_OF.get(version, _FIELDS))
    if version == _OF_KEPT:
        document["keeps"]
    if version not in _FIELDS_OF or unknown:
        raise UnknownFormat(
            f"the table's definition has format {version}{' with ' if unknown else ''}{', '.join(unknown)}, "
            f"this process reads {_FORMAT_VERSION} to {_OF_TEXTS}: update it"
        )
