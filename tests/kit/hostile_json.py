"""Texts that are nearly JSON of a flight: mutated, nested, huge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final

__all__ = ["hostile_rows"]

_VALUES: Final[tuple[str, ...]] = (
    *("null", "true", "NaN", "-Infinity", '"NaN"', "1e999", "-0.0", "0", "-1", "2147483648", "9" * 400, "9" * 5000),
    *(
        '"\\ud800"',
        '"\\u0000"',
        '"' + "x" * 600 + '"',
        '"Zürich"',
        "[" * 2000 + "]" * 2000,
        '{"a":' * 500 + "1" + "}" * 500,
    ),
    *("[]", "{}", '["a"]', '["a",1]', '{"string":"a"}', '["' + '","'.join("ab" * 500) + '"]'),
)

_BYTES: Final = b'{}[]",:\\u0\x00\xff\xed\xa0\x80 -+.eE19ntf'


def hostile_rows(random: Random, count: int) -> Iterator[bytes]:
    """So many texts; a good part of them are rows."""
    for number in range(count):
        row: dict[str, Any] = {"carrier": random.choice(("UA", "AA", "Zürich")), "flight": random.randrange(2000)}
        if random.random() < 0.5:
            row["dep_delay"] = random.random() * 90
        text = json.dumps(row, ensure_ascii=bool(number % 2))
        kind = random.randrange(4)
        if kind == 1:
            text = _with_value(random, row)
        yield _mutated(random, text.encode()) if kind == 2 else text.encode()


def _with_value(random: Random, row: dict[str, Any]) -> str:
    parts = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in row.items()]
    name = random.choice(("carrier", "flight", "dep_delay", "ratio", "legs", "gate", ""))
    parts.insert(random.randrange(len(parts) + 1), f"{json.dumps(name)}:{random.choice(_VALUES)}")
    if random.random() < 0.5:
        parts = [part for part in parts if not part.startswith(f'"{name}"')] + parts[-1:]
    return "{" + ",".join(parts) + "}"


def _mutated(random: Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(changed) or 1)
        how = random.randrange(3)
        if how == 0:
            changed[at : at + 1] = bytes([random.choice(_BYTES)])
        elif how == 1:
            del changed[at : at + random.randrange(1, 5)]
        else:
            changed[at:at] = bytes([random.choice(_BYTES)]) * random.randrange(1, 4)
    return bytes(changed)
