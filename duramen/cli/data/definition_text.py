"""What a table's keys and values are to be, as `duramen table` takes it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from duramen.client.model.asked_index import IndexFields, OrderedIndex
from log_tier.model.errors import InvalidRequest

__all__ = ["indexes_of", "names_of", "schema_text"]


def schema_text(file: Path) -> str:
    """What `--schema` names: a file, or - for the standard input. Raises `InvalidRequest`, `OSError`."""
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the schema in {file} is no UTF-8: {error.reason} at {error.start}") from None


def names_of(text: str) -> tuple[str, ...]:
    """The names in `carrier,flight`."""
    return tuple(name.strip() for name in text.split(","))


_UNIQUE = ":unique"


def indexes_of(words: Sequence[str]) -> dict[str, IndexFields] | None:
    """The indexes in `by_tail=tailnum,dep_delay` and `by_email=tenant,email:unique`. Raises `InvalidRequest`."""
    found: dict[str, IndexFields] = {}
    for word in words:
        name, sign, fields = word.partition("=")
        if not sign or name in found:
            why = "two indexes have this name" if sign else "write NAME=FIELDS, as by_tail=tailnum,dep_delay"
            raise InvalidRequest(f"--index {ascii(word)[:80]}: {why}")
        names = names_of(fields.removesuffix(_UNIQUE))
        found[name] = OrderedIndex(*names, unique=True) if fields.endswith(_UNIQUE) else names
    return found or None
