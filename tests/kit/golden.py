"""Golden scripts: what goes in and what comes out, as text. `DURAMEN_RECORD=1` writes down what comes out.

A script is blocks between blank lines: steps a line, `---`, and what came of each. Lines that begin with `#` are
comments.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from log_tier.model.errors import DuramenError

__all__ = ["check_script", "play_blocks"]


def play_blocks(text: str, do: Callable[[str], str]) -> str:
    """The script with what `do` returns for each step, or the error of ours that it raises."""
    blocks: list[str] = []
    for block in text.strip().split("\n\n"):
        asked = block.split("\n---")[0]
        said: list[str] = []
        for line in asked.splitlines():
            if line.startswith("#"):
                continue
            try:
                said.append(do(line))
            except DuramenError as error:
                said.append(f"{type(error).__name__}: {error.message}")
        blocks.append("\n".join([asked, "---", *said]))
    return "\n\n".join(blocks) + "\n"


def check_script(script: Path, played: str) -> None:
    """What was played is what the script says; with `DURAMEN_RECORD=1` the script says it from now on."""
    if os.environ.get("DURAMEN_RECORD") == "1":
        script.write_text(played, encoding="utf-8")
    assert played == script.read_text(encoding="utf-8")
