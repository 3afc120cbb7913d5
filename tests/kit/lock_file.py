"""Lock files: what one pins, and what is wrong with it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["Pin", "Project", "form_faults", "pins", "unmet"]

_HASH: Final = re.compile(r"--hash=sha256:[0-9a-f]{64}$")


@dataclass(frozen=True, slots=True)
class Pin:
    """One line of a lock, continued lines joined."""

    requirement: Requirement
    options: Sequence[str]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        return str(self.requirement.specifier).removeprefix("==")

    @property
    def holds_here(self) -> bool:
        """Whether this Python on this machine is one that the pin is for."""
        return self.requirement.marker is None or self.requirement.marker.evaluate()


def pins(text: str) -> Iterator[Pin]:
    """The pins of a lock. Raises `InvalidRequirement` for a line that is none."""
    for line in text.replace("\\\n", " ").splitlines():
        code = re.sub(r"(^|\s)#.*", "", line).strip()
        if code:
            requirement, *options = re.split(r"\s+(?=--)", code)
            yield Pin(Requirement(requirement), options)


def form_faults(text: str) -> list[str]:
    """Which pins do not fix the bytes of what is installed, and which lines say where they come from."""
    found = [f"where from: {line}" for line in text.splitlines() if re.search(r"://|^\s*-(?!-hash)|\s@\s", line)]
    for pin in pins("\n".join(line for line in text.splitlines() if not line.startswith("-"))):
        if not re.fullmatch(r"==[\w.!+]+", str(pin.requirement.specifier)):
            found.append(f"no version: {pin.requirement}")
        if not pin.options:
            found.append(f"no hash: {pin.requirement}")
        found += [f"no SHA-256: {pin.requirement} {each}" for each in pin.options if not _HASH.fullmatch(each)]
    return found


def unmet(wanted: Iterable[Requirement], lock: str) -> list[str]:
    """Which requirements a lock does not meet: no pin, or one of another version. A package may have several pins."""
    locked: dict[str, list[Pin]] = {}
    for pin in pins(lock):
        locked.setdefault(pin.name, []).append(pin)
    found = []
    for each in wanted:
        versions = [pin.version for pin in locked.get(canonicalize_name(each.name), ())]
        if not versions:
            found.append(f"not locked: {each}")
        found += [f"{each}: locked is {v}" for v in versions if not each.specifier.contains(v, prereleases=True)]
    return found


class Project:
    """What a `pyproject.toml` asks for."""

    def __init__(self, file: Path) -> None:
        self._document: dict[str, Any] = tomllib.loads(file.read_text())
        self._name = canonicalize_name(self._document["project"]["name"])

    @property
    def extras(self) -> list[str]:
        return list(self._document["project"]["optional-dependencies"])

    @property
    def build(self) -> list[Requirement]:
        return [Requirement(each) for each in self._document["build-system"]["requires"]]

    def requirements(self, extras: Iterable[str] = ()) -> list[Requirement]:
        """Of the project with extras. An extra that names extras of the project stands for theirs."""
        listed = list(self._document["project"]["dependencies"])
        for extra in extras:
            listed += self._document["project"]["optional-dependencies"][extra]
        found: list[Requirement] = []
        for requirement in map(Requirement, listed):
            if canonicalize_name(requirement.name) != self._name:
                found.append(requirement)
                continue
            plain = set(self.requirements())
            found += [each for each in self.requirements(sorted(requirement.extras)) if each not in plain]
        return found
