"""docs/REDIS.md and the endpoint have the same commands."""

from __future__ import annotations

import re
from pathlib import Path

from router.endpoints.resp.commands.command_table import COMMANDS

PAGE = Path(__file__).parents[4] / "docs" / "REDIS.md"


def test_every_command_is_on_the_page_and_no_other() -> None:
    text = PAGE.read_text().split("## Commands")[1].split("Everything else is refused")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {name.lower() for cell in cells for name in re.findall(r"`([^`]+)`", cell.split(" with ")[0])}
    assert named == set(COMMANDS)


def test_what_is_said_to_be_missing_is_missing() -> None:
    for name in ("flushall", "publish", "config", "eval", "lpush", "hset", "replicaof"):
        assert name not in COMMANDS
