"""The numbers of schemas. They are the whole cluster's: readers of a stored row look its schema up without its table.

The same schema has one number, whichever tables have it, and no number is used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from log_tier.model.errors import LimitExceeded
from log_tier.rows.definition import TableDefinition

__all__ = ["CLUSTER_SCHEMAS_BYTES_MAX", "CLUSTER_SCHEMAS_MAX", "number_schemas"]

CLUSTER_SCHEMAS_MAX: Final = 4096
"""How many schemas a cluster has, those of dropped tables included."""

CLUSTER_SCHEMAS_BYTES_MAX: Final = 8 * 1024 * 1024
"""How many bytes they have together: each process of a cluster holds all of them."""


def number_schemas(definition: TableDefinition, known: Mapping[int, str]) -> tuple[TableDefinition, dict[int, str]]:
    """The definition with the numbers of its schemas, and those schemas that `known` lacks, by their new numbers.

    `known`: every schema that ever had a number, as its canonical text. Raises `LimitExceeded`. O(schemas).
    """
    numbers = {text: number for number, text in known.items()}
    added: dict[int, str] = {}
    texts = [each.schema.text for each in definition.schemas]
    for text in texts:
        if text not in numbers:
            numbers[text] = number = len(known) + len(added) + 1
            added[number] = text
    size = sum(map(len, numbers))
    if added and (len(numbers) > CLUSTER_SCHEMAS_MAX or size > CLUSTER_SCHEMAS_BYTES_MAX):
        raise LimitExceeded(
            f"with this table's there would be {len(numbers)} schemas of {size} bytes, and the cluster takes "
            f"{CLUSTER_SCHEMAS_MAX} of {CLUSTER_SCHEMAS_BYTES_MAX} bytes together: use one that is there",
            limit=CLUSTER_SCHEMAS_MAX,
            size=len(numbers),
        )
    return definition.numbered([numbers[text] for text in texts]), added
