"""bench/README.md has every workload in its table, and no other one."""

from __future__ import annotations

import re
from pathlib import Path

from bench.workloads import WORKLOADS

PAGE = (Path(__file__).parents[2] / "bench" / "README.md").read_text(encoding="utf-8")


def named_in_the_table() -> set[str]:
    """The first column's names; one that begins with `_` takes the place of the end of the row's first name."""
    named: set[str] = set()
    table = PAGE.split("## What is measured")[1].split("\n\nKeys are")[0]
    for line in table.splitlines():
        words = re.findall(r"`([a-z0-9_]+)`", line.split("|")[1]) if line.startswith("| `") else []
        for word in words:
            ends = [name for name in WORKLOADS if name.endswith(word) and name.startswith(words[0].split("_")[0])]
            named |= set(ends) if word.startswith("_") else {word}
    return named


def test_every_workload_is_in_the_table() -> None:
    assert named_in_the_table() == set(WORKLOADS)
