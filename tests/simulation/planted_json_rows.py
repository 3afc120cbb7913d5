"""Bugs to plant where rows come in as JSON: by the Redis protocol and by commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from log_tier.model.errors import InvalidRow
from log_tier.rows.json_rows import json_table
from log_tier.rows.json_rows.json_form import row_from_json
from log_tier.rows.json_rows.json_table import JsonTable
from router.endpoints.resp import row_words
from router.endpoints.resp.commands import transactions
from simulation.planted import Patches

__all__ = ["JSON_IN_DATABASE", "JSON_IN_RESP"]


def _another_key_is_taken() -> Patches:
    return [(JsonTable, "pair", lambda self, key, text: (self.key(key), self.value(text)))]


def _a_transaction_goes_on_without_its_misfit() -> Patches:
    inner = row_words.stored_commands

    async def stored(tables: Any, table: Any, commands: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for each in commands:
            try:
                found += await inner(tables, table, [each])
            except InvalidRow:
                if not found:
                    raise
                found.append(found[-1])
        return found

    return [(transactions, "stored_commands", stored)]


def _a_number_that_lacks_is_zero() -> Patches:
    def filled(schema: Any, text: str) -> bytes:
        try:
            return row_from_json(schema, text)
        except InvalidRow:
            if "dep_delay" in text:
                raise
            return row_from_json(schema, json.dumps({**json.loads(text), "dep_delay": 0.0}))

    return [(json_table, "row_from_json", filled)]


JSON_IN_RESP: Final[dict[str, Callable[[], Patches]]] = {
    "a row as JSON under the key of another row is written": _another_key_is_taken,
    "a transaction goes on without its misfit": _a_transaction_goes_on_without_its_misfit,
}

JSON_IN_DATABASE: Final[dict[str, Callable[[], Patches]]] = {
    "a number that a row as JSON lacks is zero": _a_number_that_lacks_is_zero,
}
