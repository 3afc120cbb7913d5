"""docs/REDIS.md and the endpoint have the same commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kit.resp.raw_client import Raw
from kit.resp.real_redis import RealRedis

from router.endpoints.resp.commands.command_table import COMMANDS

PAGE = Path(__file__).parents[4] / "docs" / "REDIS.md"


def test_every_command_is_on_the_page_and_no_other() -> None:
    text = PAGE.read_text().split("## Commands")[1].split("Everything else is refused")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {name.lower() for cell in cells for name in re.findall(r"`([^`]+)`", cell.split(" with ")[0])}
    assert named == set(COMMANDS)


def not_implemented() -> tuple[set[str], set[str]]:
    """What the page says is missing: groups of Redis, and single commands."""
    text = PAGE.read_text().split("Not implemented, of the commands")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")][1:]
    named = {name.lower() for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    groups = {word for cell in cells if "group" in cell for word in re.findall(r"[a-z-]+", cell)}
    return groups - {"all", "of", "the", "groups", "group", "and"}, named


def test_the_page_names_every_command_of_redis_that_is_missing(redis_server: RealRedis) -> None:
    with Raw(redis_server.address) as redis:
        documented = redis.call("COMMAND", "DOCS")
    group_of = {
        name.decode(): dict(zip(fields[::2], fields[1::2], strict=True))[b"group"].decode()
        for name, fields in zip(documented[::2], documented[1::2], strict=True)
    }
    if "spublish" not in group_of or "hpexpire" in group_of:
        pytest.skip("the page is about the commands of Redis 7.0")
    groups, named = not_implemented()
    assert groups <= set(group_of.values())
    missing = {name for name, group in group_of.items() if name not in COMMANDS}
    assert {name for name in missing if group_of[name] not in groups} == named
    assert {name for name in COMMANDS if group_of.get(name) in groups} == set()
