"""Imported once by the process whose forks fuzz: every target is made, so no fork makes them again."""

from __future__ import annotations

from fuzz.targets import all_targets

__all__: list[str] = []

all_targets()
