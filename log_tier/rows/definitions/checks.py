"""Questions about a table's definition: whether an index of it may be asked now."""

from __future__ import annotations

from log_tier.model.errors import IndexBuilding, InvalidRequest
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_index import TableIndex
from log_tier.rows.text_index import TextIndex

__all__ = ["check_index", "served_text"]


def check_index(index: TableIndex, definition: TableDefinition | None) -> None:
    """Raise `InvalidRequest` where a table of this definition has not just this index, `IndexBuilding` where that is
    not in service.
    """
    if definition is None or index not in definition.indexes:
        (definition or TableDefinition()).index_named(index.name)
        raise InvalidRequest(f"the table's index {index.name} is another one by now: open the table again")
    if index.number in definition.history.building:
        raise IndexBuilding(
            f"the index {index.name} is being built: ask again when it is in service, or scan the table",
            index=index.name,
        )


def served_text(definition: TableDefinition | None, name: str, number: int = 0) -> TextIndex:
    """The text index of that name. Raises `InvalidRequest` where the table has none such, or where it has another
    number than the caller knows (0: any), and `IndexBuilding` where it is not in service.
    """
    texts = () if definition is None else definition.texts
    found = next((each for each in texts if each.name == name), None)
    if found is None:
        there = ", ".join(each.name for each in texts) or "none"
        raise InvalidRequest(f"the table has no text index {ascii(name)[:80]}; it has {there}")
    if number not in (0, found.number):
        raise InvalidRequest(f"the table's text index {name} is another one by now: open the table again")
    if definition is not None and found.number in definition.history.building:
        raise IndexBuilding(f"the text index {name} is being built: ask again when it is in service", index=name)
    return found
