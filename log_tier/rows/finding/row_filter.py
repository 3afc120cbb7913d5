"""Which stored rows meet conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from log_tier.model.errors import UnknownFormat
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.found_range import FieldCondition
from log_tier.rows.index_entries import elements_of

__all__ = ["row_filter"]


def row_filter(conditions: Sequence[FieldCondition], definition: TableDefinition) -> Callable[[bytes], bool]:
    """A function that says whether a stored value, which fits the definition, meets all conditions. It raises
    `UnknownFormat` for the number of a schema that the definition has not. Some 1 µs for a field of the row, up to the
    last one that is asked for.
    """
    if not conditions:
        return lambda value: True
    read = elements_of(definition.schemas, tuple(tuple(each.path.split(".")) for each in conditions))

    def meets(value: bytes) -> bool:
        try:
            elements = read(value, 0)
        except KeyError as error:
            (number,) = error.args
            raise UnknownFormat(
                f"a stored row has schema {number}, which is not known here: try again", schema=number
            ) from None
        return all(each.holds(element) for each, element in zip(conditions, elements, strict=True))

    return meets
