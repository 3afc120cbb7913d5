"""A Dockerfile's stages and what each of their lines says."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Dockerfile", "Instruction", "Stage"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line, continued lines joined."""

    name: str
    rest: str

    @property
    def words(self) -> Sequence[str]:
        return shlex.split(self.rest)

    @property
    def array(self) -> Sequence[str]:
        """Of a line in the form of a JSON array."""
        found: list[str] = json.loads(self.rest)
        return found


@dataclass(frozen=True, slots=True)
class Stage:
    """From one FROM to the next."""

    base: str
    name: str
    """Empty where it has none."""
    steps: list[Instruction] = field(default_factory=list)

    def all(self, name: str) -> list[Instruction]:
        return [step for step in self.steps if step.name == name]

    def last(self, name: str) -> Instruction:
        return self.all(name)[-1]

    def environment(self, before: dict[str, str]) -> dict[str, str]:
        """`before` with the variables of this stage."""
        found = dict(before)
        for step in self.all("ENV"):
            for word in step.words:
                variable, _, value = word.partition("=")
                found[variable] = re.sub(r"\$(\w+)", lambda m: found[m[1]], value)
        return found


class Dockerfile:
    """Its stages, in order; the last one is the image."""

    def __init__(self, file: Path) -> None:
        lines = [line for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]
        self.stages: list[Stage] = []
        for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
            name, rest = line.split(None, 1)
            if name == "FROM":
                base, *after = rest.split()
                self.stages.append(Stage(base, after[1] if after[:1] == ["AS"] else ""))
            elif self.stages:
                self.stages[-1].steps.append(Instruction(name, rest))

    @property
    def image(self) -> Stage:
        return self.stages[-1]
