"""The recipes of the runbook in `docs/OPERATIONS.md`, and how a test follows one."""

from __future__ import annotations

import re
from pathlib import Path

from kit.cluster.cluster_process import ClusterProcess
from kit.cluster.recipe_servers import LimitedServer, ShellAt

__all__ = ["PAGE", "RECIPES", "follow"]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "OPERATIONS.md"


def recipes() -> dict[str, list[list[str]]]:
    """The commands of each recipe, by its heading."""
    runbook = PAGE.read_text().split("## Runbook")[1].split("\n## ")[0]
    found: dict[str, list[list[str]]] = {}
    for part in runbook.split("\n### ")[1:]:
        lines = [line for block in re.findall(r"```\n(.*?)```", part, re.DOTALL) for line in block.splitlines()]
        found[part.splitlines()[0]] = [line.split("#")[0].split()[1:] for line in lines if line.startswith("duramen ")]
    return found


RECIPES = recipes()


def follow(cluster: ClusterProcess | LimitedServer | ShellAt, name: str, **words: str) -> list[str]:
    """Run a recipe's commands, with words like JOB in their place; their outputs."""
    return [cluster.run(*(words.get(word, word) for word in command)) for command in RECIPES[name]]
