"""Which stored rows meet conditions, and what a row has in some of its fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from log_tier.model.errors import UnknownFormat
from log_tier.rows.definition import TableDefinition
from log_tier.rows.index_entries import elements_of
from log_tier.rows.table_index import FieldCondition

__all__ = ["row_elements", "row_filter"]


def row_filter(conditions: Sequence[FieldCondition], definition: TableDefinition) -> Callable[[bytes], bool]:
    """A function that says whether a stored value, which fits the definition, meets all conditions. It raises
    `UnknownFormat` for the number of a schema that the definition has not. Some 1 µs for a field of the row, up to the
    last one that is asked for.
    """
    if not conditions:
        return lambda value: True
    read = row_elements([each.path for each in conditions], definition)

    def meets(value: bytes) -> bool:
        return all(each.holds(element) for each, element in zip(conditions, read(value), strict=True))

    return meets


def row_elements(paths: Sequence[str], definition: TableDefinition) -> Callable[[bytes], list[bytes]]:
    """A function that reads the elements at some paths of a stored value, which sort as the fields do. Raises and costs
    what the function of `row_filter` does.
    """
    read = elements_of(definition.schemas, tuple(tuple(each.split(".")) for each in paths))

    def elements(value: bytes) -> list[bytes]:
        try:
            return read(value, 0)
        except KeyError as error:
            (number,) = error.args
            raise UnknownFormat(
                f"a stored row has schema {number}, which is not known here: try again", schema=number
            ) from None

    return elements
